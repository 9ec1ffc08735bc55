"""W5: over HTTP: creating one by one and in batches, working by calls, waiting for work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from oncue_bench.creating import at_least
from oncue_bench.processes import Measured
from oncue_bench.report import Row
from oncue_bench.rounds import Ground, in_turn, percentile, rate, ratios

POST_GOAL = 0.6
BATCH_GOAL = 0.5
BATCH_RATE_GOAL = 100_000
SERVER_PEAK_GOAL_MIB = 200.0
MEANWHILE_GOAL_MS = 200.0
CALL_GOAL = 0.5
MANY_RATE_GOAL = 30_000
IDLE_CPU_GOAL_PERCENT = 0.5


def rows(ground: Ground) -> Iterator[Row]:
    posted = _posted(ground)
    yield _beside("POST /jobs", posted["product"], posted["bare"], "bare ASGI", POST_GOAL)
    yield from _batches(ground)
    yield from _working(ground, posted["product"])
    for waiters in ground.sizes.waiters:
        yield from _waiting(ground, waiters)


def _posted(ground: Ground) -> dict[str, list[Measured]]:
    ground.progress("W5 POST /jobs")
    sizes = ground.sizes

    def posts(app: str) -> Measured:
        return ground.fresh(
            "http_load.posts", app=app, count=sizes.posts, connections=sizes.connections
        )

    both = {"bare": lambda: posts("bare"), "product": lambda: posts("product")}
    return in_turn(sizes.rounds, both)


def _batches(ground: Ground) -> Iterator[Row]:
    ground.progress("W5 POST /jobs/batch")
    count = ground.sizes.batch
    taken = in_turn(
        ground.sizes.rounds,
        {
            "schedule_many": lambda: ground.fresh("product.in_bulk", count=count),
            "batch": lambda: ground.fresh("http_load.batch", count=count, probing=False),
        },
    )
    title = "POST /jobs/batch, NDJSON"
    yield _beside(title, taken["batch"], taken["schedule_many"], "schedule_many", BATCH_GOAL)
    yield at_least("W5", f"{title}, absolute", taken["batch"], BATCH_RATE_GOAL)
    probed = ground.fresh("http_load.batch", count=count, probing=True)
    peak = max(one.figures["server_peak_kib"] for one in [*taken["batch"], probed]) / 1024
    yield _at_most(f"{title}: memory of the server", "MiB", peak, SERVER_PEAK_GOAL_MIB)
    late = percentile(probed.figures["probes_ms"], 0.99)
    yield _at_most("POST /jobs during a batch: p99", "ms", late, MEANWHILE_GOAL_MS)


def _working(ground: Ground, posts: Sequence[Measured]) -> Iterator[Row]:
    ground.progress("W5 claim and complete")
    sizes = ground.sizes
    source = ground.seeded(f"due-{sizes.worked}", due=sizes.worked)
    taken = in_turn(
        len(posts),
        {
            "calls": lambda: ground.fresh(
                "http_load.work", source, count=sizes.worked, connections=sizes.connections
            ),
            "many": lambda: ground.fresh("http_load.work_in_batches", source, count=sizes.worked),
        },
    )
    source.unlink()
    yield _beside(
        "claim 1, complete it: calls", taken["calls"], posts, "POST /jobs", CALL_GOAL, "calls/s"
    )
    yield at_least("W5", "claim 100, settle 100", taken["many"], MANY_RATE_GOAL)


def _waiting(ground: Ground, waiters: int) -> Iterator[Row]:
    what = f"{waiters:,} waiting to claim"
    ground.progress(f"W5 {what}")
    sizes = ground.sizes
    taken = ground.fresh(
        "http_load.waiting",
        waiters=waiters,
        count=sizes.waited,
        over_seconds=sizes.waited_seconds,
        idle_seconds=min(sizes.idle_seconds, 5.0),
    )
    late = taken.figures["lateness_ms"]
    for share in (0.5, 0.99):
        title = f"{what}: lateness p{round(share * 100)}"
        yield Row("W5", title, "ms", percentile(late, share))
    idle = taken.figures["idle_cpu_percent"]
    yield _at_most(f"{what}: CPU of the idle server", "%", idle, IDLE_CPU_GOAL_PERCENT)


def _beside(
    title: str,
    product: Sequence[Measured],
    other: Sequence[Measured],
    what: str,
    goal: float,
    unit: str = "jobs/s",
) -> Row:
    each = ratios(product, other)
    return Row(
        "W5",
        title,
        unit,
        rate(product),
        rate(other),
        beside_what=what,
        ratio=median(each),
        spread=(min(each), max(each)),
        goal=f"≥ {goal:g} × that",
        reached=median(each) >= goal,
    )


def _at_most(title: str, unit: str, found: float, goal: float) -> Row:
    return Row("W5", title, unit, found, goal=f"≤ {goal:g} {unit}", reached=found <= goal)
