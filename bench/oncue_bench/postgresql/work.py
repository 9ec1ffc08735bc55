"""W15: PostgreSQL. Scheduling, bursts, two nodes, precision, growth, and claims beside an open
transaction; each beside the same schema and statements in a bare loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import median
from typing import Any

from oncue_bench.bursts import LARGE_PEAK_GOAL_MIB, PEAK_GOAL_MIB, flat
from oncue_bench.creating import beside_raw
from oncue_bench.postgresql import place
from oncue_bench.processes import Measured, measure
from oncue_bench.report import Row, without_goal
from oncue_bench.rounds import Ground, Taken, in_turn, percentile, rate

WORK = "W15"
CALLERS = 64
BULK_GOAL = 0.5
CROWD_GOAL = 0.6
NOTHING_KEPT_GOAL = 0.5
KEPT_GOAL = 0.3
NODES_GOAL = 0.8
P50_GOAL_MS = 2.0
P99_GOAL_MS = 5.0
P99_RAW_GOAL = 1.5
IDLE_CPU_GOAL_PERCENT = 0.5
HELD_UP_GOAL = 3.0
GROWTH_GOAL = 1.2
LARGE_ROUNDS = 2
NODES_ROUNDS = 2

Given = dict[str, Any]


def rows(ground: Ground) -> Iterator[Row]:
    with place.server(ground.store, ground.folder) as near:
        idle = measure("postgresql.raw.idle").peak_kib
        ground = replace(ground, store=near, idle_kib=idle)
        yield _bulk(ground)
        yield _single(ground)
        yield _crowd(ground)
        yield from _bursts(ground)
        yield from _nodes(ground)
        yield from _precision(ground)
        yield from _held_up(ground)
        yield _growth(ground)


def _fresh(
    ground: Ground,
    name: str,
    due: int = 0,
    pending: int = 0,
    finished: int = 0,
    path: str = "url",
    **given: Any,
) -> Measured:
    """Measure in a schema of its own, with so many jobs in it. `path`: how the measurement calls
    the URL."""
    with place.own_schema(ground.store) as url:
        measure("postgresql.raw.seed", url=url, due=due, pending=pending, finished=finished)
        return measure(name, **{path: url}, **given)


def _bulk(ground: Ground) -> Row:
    count = ground.sizes.pg_bulk
    ground.progress(f"{WORK} {count:,} in bulk")
    taken = in_turn(
        ground.sizes.pg_rounds,
        {
            "raw": lambda: _fresh(ground, "postgresql.raw.in_copies", count=count),
            "product": lambda: _fresh(ground, "product.in_bulk", path="path", count=count),
        },
    )
    title = f"{count:,} by schedule_many, raw by COPY"
    return beside_raw(ground, WORK, title, taken, BULK_GOAL, PEAK_GOAL_MIB)


def _single(ground: Ground) -> Row:
    ground.progress(f"{WORK} one by one")
    sizes = ground.sizes
    given: Given = {"count": sizes.single, "rounds": sizes.pg_single_rounds}
    both = _fresh(ground, "postgresql.nodes.one_by_one", **given)

    def turns(name: str) -> list[Measured]:
        return [
            Measured({"count": sizes.single, "seconds": seconds}, both.peak_kib)
            for seconds in both.figures[name]
        ]

    taken = {"product": turns("seconds"), "raw": turns("raw_seconds")}
    return without_goal(beside_raw(ground, WORK, "one by one, 1 caller", taken, 0))


def _crowd(ground: Ground) -> Row:
    ground.progress(f"{WORK} {CALLERS} callers")
    count = ground.sizes.pg_crowd_jobs
    taken = in_turn(
        ground.sizes.pg_rounds,
        {
            "raw": lambda: _fresh(ground, "postgresql.raw.in_groups", count=count, group=CALLERS),
            "product": lambda: _fresh(
                ground, "product.concurrently", path="path", count=count, callers=CALLERS
            ),
        },
    )
    title = f"{CALLERS} asynchronous callers, raw by {CALLERS} rows"
    return beside_raw(ground, WORK, title, taken, CROWD_GOAL)


def _bursts(ground: Ground) -> Iterator[Row]:
    sizes = ground.sizes
    small = _burst(ground, sizes.pg_burst, sizes.pg_rounds)
    yield from _compared(ground, sizes.pg_burst, small, PEAK_GOAL_MIB)
    if sizes.pg_large is None:
        return
    large = _burst(ground, sizes.pg_large, LARGE_ROUNDS, by_one=False)
    yield from _compared(ground, sizes.pg_large, large, LARGE_PEAK_GOAL_MIB)
    yield from _grown(sizes.pg_burst, small, sizes.pg_large, large)


def _grown(few: int, small: Taken, many: int, large: Taken) -> Iterator[Row]:
    """Whether the product stays as fast with more jobs; of raw only the number, which explains it:
    the goals are those of the product."""
    beside = f"at {few:,}"
    bare = flat(WORK, f"raw: {many:,} beside {few:,}", large["raw"], small["raw"], beside)
    yield without_goal(bare)
    title = f"sink, nothing kept: {many:,} as fast as {few:,}"
    yield flat(WORK, title, large["gone"], small["gone"], beside)


def _burst(ground: Ground, count: int, rounds: int, by_one: bool = True) -> Taken:
    ground.progress(f"{WORK} {count:,} due at one instant")

    def product(name: str, keep: bool) -> Callable[[], Measured]:
        given: Given = {"path": "path", "due": count, "count": count, "keep": keep}
        return lambda: _fresh(ground, f"product.{name}", **given)

    kinds: dict[str, Callable[[], Measured]] = {
        "raw": lambda: _fresh(ground, "postgresql.raw.drain", due=count, count=count),
        "gone": product("to_sink", keep=False),
        "kept": product("to_sink", keep=True),
    }
    if by_one:
        kinds["handler"] = product("to_handler", keep=True)
    return in_turn(rounds, kinds)


def _compared(ground: Ground, count: int, taken: Taken, peak_goal: float) -> Iterator[Row]:
    kinds = {
        "gone": ("sink, nothing kept", NOTHING_KEPT_GOAL),
        "kept": ("sink, history kept", KEPT_GOAL),
    }
    for kind, (what, goal) in kinds.items():
        pair = {"product": taken[kind], "raw": taken["raw"]}
        yield beside_raw(ground, WORK, f"{count:,} due, {what}", pair, goal, peak_goal)
    if handled := taken.get("handler"):
        rates = [one.rate for one in handled]
        yield Row(
            *(WORK, f"{count:,} due, handler job by job, history kept", "jobs/s", rate(handled)),
            spread=(min(rates), max(rates)),
            peak_mib=ground.peak_mib(handled),
        )


def _nodes(ground: Ground) -> Iterator[Row]:
    """What a second process adds, beside what it adds to raw."""
    count = ground.sizes.pg_shared
    ground.progress(f"{WORK} {count:,} due, two nodes")

    def of(side: str, nodes: int) -> Callable[[], Measured]:
        return lambda: _together(ground, f"postgresql.{side}.drain", nodes, count)

    taken = in_turn(
        min(NODES_ROUNDS, ground.sizes.pg_rounds),
        {
            "raw 1": of("raw", 1),
            "raw 2": of("raw", 2),
            "product 1": of("nodes", 1),
            "product 2": of("nodes", 2),
        },
    )
    gains = {
        side: rate(taken[f"{side} 2"]) / rate(taken[f"{side} 1"]) for side in ("raw", "product")
    }
    ratio = gains["product"] / gains["raw"]
    for side in ("raw", "product"):
        two, one = taken[f"{side} 2"], taken[f"{side} 1"]
        shares = [max(found.figures["counts"]) / count for found in two]
        is_product = side == "product"
        yield Row(
            WORK,
            f"{count:,} due, two {'nodes' if is_product else 'raw consumers'}, nothing kept "
            f"(one did up to {max(shares):.0%})",
            "jobs/s",
            rate(two),
            rate(one),
            "by one",
            gains[side],
            goal=f"≥ {NODES_GOAL:g} × the gain of raw: {ratio:.2f}" if is_product else "",
            reached=ratio >= NODES_GOAL if is_product else None,
        )


def _together(ground: Ground, name: str, nodes: int, count: int) -> Measured:
    with place.own_schema(ground.store) as url:
        measure("postgresql.raw.seed", url=url, due=count)
        measure("postgresql.nodes.prepare", url=url, keep=False)
        given = {"url": url, "what": name, "nodes": nodes, "count": count}
        found = measure("postgresql.nodes.together", **given)
    if found.figures["count"] != count:
        raise AssertionError(f"{found.figures['count']} of {count} jobs")
    return found


def _precision(ground: Ground) -> Iterator[Row]:
    sizes = ground.sizes
    moments: Given = {
        "count": sizes.timed,
        "over_seconds": sizes.timed_seconds,
        "lead_seconds": sizes.lead_seconds,
    }
    ground.progress(f"{WORK} precision, raw")
    bare = _fresh(ground, "postgresql.raw.on_time", pending=sizes.pg_pending, **moments)
    raw_ms = bare.figures["lateness_ms"]
    for by in ("sink", "handler"):
        ground.progress(f"{WORK} precision, {by}")
        more: Given = {"by": by, "pending": sizes.pg_pending}
        more["idle_seconds"] = sizes.pg_idle_seconds
        found = _fresh(ground, "receiving.on_time", path="path", **more, **moments)
        yield from _on_time(f"{by}, {sizes.pg_pending:,} pending", found, raw_ms, ground)


def _on_time(what: str, product: Measured, raw_ms: list[float], ground: Ground) -> Iterator[Row]:
    late = product.figures["lateness_ms"]
    p50, raw_p50 = median(late), median(raw_ms)
    yield Row(
        *(WORK, f"{what}: lateness p50", "ms", p50, raw_p50),
        goal=f"≤ {P50_GOAL_MS:g} ms",
        reached=p50 <= P50_GOAL_MS,
        peak_mib=ground.peak_mib([product]),
    )
    p99, raw_p99 = percentile(late, 0.99), percentile(raw_ms, 0.99)
    yield Row(
        *(WORK, f"{what}: lateness p99", "ms", p99, raw_p99),
        goal=f"≤ {P99_GOAL_MS:g} ms or {P99_RAW_GOAL:g} × raw",
        reached=p99 <= max(P99_GOAL_MS, P99_RAW_GOAL * raw_p99),
    )
    earliest = min(late)
    goal, reached = "never early", earliest >= 0
    yield Row(WORK, f"{what}: the earliest", "ms", earliest, goal=goal, reached=reached)
    idle = product.figures["idle_cpu_percent"]
    yield Row(
        *(WORK, f"{what}: CPU of the idle process", "%", idle),
        goal=f"≤ {IDLE_CPU_GOAL_PERCENT:g} %",
        reached=idle <= IDLE_CPU_GOAL_PERCENT,
    )


def _held_up(ground: Ground) -> Iterator[Row]:
    sizes = ground.sizes
    ground.progress(f"{WORK} claims beside an open transaction")
    given: Given = {"before": sizes.pg_gone, "count": sizes.pg_claims}

    def claims(held_up: bool) -> Callable[[], Measured]:
        due = sizes.pg_gone + sizes.pg_claims
        name = "postgresql.nodes.claim_latency"
        return lambda: _fresh(ground, name, due=due, held_up=held_up, **given)

    taken = in_turn(sizes.pg_rounds, {"calm": claims(False), "held up": claims(True)})
    for share in (0.5, 0.99):
        calm, held = (
            [percentile(one.figures["latency_ms"], share) for one in taken[name]]
            for name in ("calm", "held up")
        )
        each = [one / other for one, other in zip(held, calm, strict=True)]
        yield Row(
            WORK,
            f"claim of 1, a transaction open while {sizes.pg_gone:,} came and went: "
            f"p{round(share * 100)}",
            "ms",
            median(held),
            median(calm),
            "calm",
            median(each),
            (min(each), max(each)),
            f"≤ {HELD_UP_GOAL:g} × that",
            median(each) <= HELD_UP_GOAL,
        )


def _growth(ground: Ground) -> Row:
    """Claims from a table that is nearly empty, and from one that is full of other jobs."""
    far, count = ground.sizes.pg_far, ground.sizes.pg_claims
    ground.progress(f"{WORK} claims beside {far:,} far and {far:,} finished jobs")
    given: Given = {"before": 0, "count": count, "held_up": False}

    def claims(others: int) -> Callable[[], Measured]:
        jobs: Given = {"due": count, "pending": others, "finished": others}
        return lambda: _fresh(ground, "postgresql.nodes.claim_latency", **jobs, **given)

    taken = in_turn(LARGE_ROUNDS, {"empty": claims(0), "full": claims(far)})
    empty, full = (
        [median(one.figures["latency_ms"]) for one in taken[name]] for name in ("empty", "full")
    )
    each = [one / other for one, other in zip(full, empty, strict=True)]
    return Row(
        WORK,
        f"claim of 1, {far:,} far and {far:,} finished jobs besides: p50",
        "ms",
        median(full),
        median(empty),
        "with none",
        median(each),
        (min(each), max(each)),
        f"≤ {GROWTH_GOAL:g} × that",
        median(each) <= GROWTH_GOAL,
    )
