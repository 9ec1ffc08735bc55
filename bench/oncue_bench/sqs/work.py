"""W13: SQS and Lambda. How fast messages are sent, compared with a plain client; the example of
100,000 tasks of one date; many due jobs; and how late messages arrive."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from oncue.stores.dynamodb.address import TableAddress
from oncue_bench import waiting
from oncue_bench.dynamodb import place as tables
from oncue_bench.processes import Measured, measure
from oncue_bench.report import Row
from oncue_bench.rounds import Ground, percentile
from oncue_bench.sqs import place

WORK = "W13"
GOAL = 0.8
SHARDS = (50, 1)
SEED_MIB = 462
MEMORY_MIB = 80
LATEST_MS = 1_250
"""A delay is rounded up to whole seconds; the rest is the way to the receiver."""
TICK_SECONDS = 3.0


def rows(ground: Ground) -> Iterator[Row]:
    yield from _rates(ground)
    yield from _own_limit(ground)
    near = tables.address(tables.LOCAL)
    for shards in SHARDS:
        yield _tasks(ground, near, shards)
    yield _due(ground, near)
    yield from _lateness(ground, near)
    yield _native(ground)
    yield from _captured(ground)


def _rates(ground: Ground) -> Iterator[Row]:
    count = ground.sizes.sqs_messages
    ground.progress(f"{WORK} {count:,} messages")
    with place.own_queue(place.endpoint()) as sink:
        rounds = 2 * ground.sizes.rounds
        found = measure("sqs.sending.compare", sink=sink, count=count, rounds=rounds).figures
    mine, its = found["seconds"], found["raw_seconds"]
    ratios = [raw / own for own, raw in zip(mine, its, strict=True)]
    ratio = median(ratios)
    yield Row(
        *(WORK, f"{count:,} messages to SQS", "messages/s", count / median(mine)),
        *(count / median(its), "raw", ratio, (min(ratios), max(ratios))),
        goal=f"≥ {GOAL:g} × raw",
        reached=ratio >= GOAL,
    )
    own, raw = (1_000_000 * median(found[name]) / count for name in ("cpu", "raw_cpu"))
    yield Row(WORK, "CPU for each of them", "µs", own, raw, "raw", own / raw)


def _own_limit(ground: Ground) -> Iterator[Row]:
    count = ground.sizes.sqs_own
    ground.progress(f"{WORK} {count:,} messages that nobody waits for")
    found = [measure("sqs.sending.own_limit", count=count) for _ in range(ground.sizes.rounds)]
    rates = [one.rate for one in found]
    yield Row(
        *(WORK, f"{count:,} due in memory, an SQS that takes no time", "messages/s", median(rates)),
        spread=(min(rates), max(rates)),
        peak_mib=max(_growth_mib(one) for one in found),
        peak_goal_mib=MEMORY_MIB,
    )


def _growth_mib(taken: Measured) -> float:
    return (taken.peak_kib - float(taken.figures["before_kib"])) / 1024


def _tasks(ground: Ground, near: TableAddress, shards: int) -> Row:
    count = ground.sizes.sqs_tasks
    ground.progress(f"{WORK} {count:,} tasks of one date, shards: {shards}")
    with tables.own_table(near) as url, place.own_queue(place.endpoint()) as sink:
        measure("sqs.functions.seed_tasks", url=url, count=count, shards=shards)
        taken = measure("sqs.functions.start_tasks", url=url, sink=sink)
    found = taken.figures
    every = found["count"] == found["started"] == found["in_queue"] == count
    return Row(
        *(WORK, f"{count:,} tasks of one date started, shards: {shards}", "s", found["seconds"]),
        goal="all started, all in the queue, none twice",
        reached=every and not found["again"],
        more=_more(found),
        peak_mib=_growth_mib(taken),
        peak_goal_mib=SEED_MIB,
    )


def _more(found: dict[str, Any]) -> dict[str, float]:
    count = found["count"]
    return {
        "jobs/s": count / found["seconds"],
        "ms of CPU a job": 1000 * found["cpu"] / count,
        "% of a core": 100 * found["cpu"] / found["seconds"],
        "requests to DynamoDB for 1,000": 1000 * found["requests"] / count,
    }


def _due(ground: Ground, near: TableAddress) -> Row:
    count = ground.sizes.sqs_due
    ground.progress(f"{WORK} {count:,} due in one queue")
    with tables.own_table(near) as url, place.own_queue(place.endpoint()) as sink:
        measure("dynamodb.rates.seed", url=url, count=count)
        taken = measure("sqs.functions.dispatch", url=url, sink=sink)
    found = taken.figures
    return Row(
        *(WORK, f"{count:,} due, nothing kept, sent by one tick", "s", found["seconds"]),
        goal="all in the queue",
        reached=found["count"] == found["in_queue"] == count,
        more=_more(found),
        peak_mib=_growth_mib(taken),
        peak_goal_mib=MEMORY_MIB,
    )


def _lateness(ground: Ground, near: TableAddress) -> Iterator[Row]:
    sizes = ground.sizes
    given = {"count": sizes.sqs_timed, "seconds": sizes.sqs_seconds, "tick_seconds": TICK_SECONDS}
    ground.progress(f"{WORK} lateness, {sizes.sqs_timed:,} messages in {sizes.sqs_seconds:g} s")
    with tables.own_table(near) as url, place.own_queue(place.endpoint()) as sink:
        found = measure("sqs.arriving.lateness", url=url, sink=sink, **given).figures
    late = found["late_ms"]
    complete = found["count"] == sizes.sqs_timed
    title = "lateness at the receiver"
    yield Row(
        *(WORK, f"{title}, p50", "ms", median(late)),
        spread=(min(late), max(late)),
        goal="all arrive, none early",
        reached=complete and min(late) >= 0,
    )
    p99 = percentile(late, 0.99)
    goal = f"≤ {LATEST_MS:,} ms"
    yield Row(WORK, f"{title}, p99", "ms", p99, goal=goal, reached=p99 <= LATEST_MS)


def _native(ground: Ground) -> Row:
    count = ground.sizes.sqs_sent
    ground.progress(f"{WORK} {count:,} messages that SQS delays itself")
    with place.own_queue(place.endpoint()) as sink:
        rounds = 2 * ground.sizes.rounds
        found = measure("sqs.patience.native", sink=sink, count=count, rounds=rounds).figures
    return waiting.native(WORK, "send_message by `patient`, nothing captured", "boto3", found)


def _captured(ground: Ground) -> Iterator[Row]:
    count = ground.sizes.sqs_captured
    ground.progress(f"{WORK} {count:,} messages captured")
    found = measure("sqs.patience.captured", count=count).figures
    broker = "an SQS that takes no time"
    return waiting.captured(WORK, "messages", "ten in a call", broker, found)
