"""What the doctor looks at in a DynamoDB table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from oncue.cli import findings, forecast, output
from oncue.cli.app import App
from oncue.cli.findings import Checks, DoctorFinding, bad, ok, size, warn
from oncue.cli.progress import counted
from oncue.core import forecast as core
from oncue.stores.dynamodb import health, keys, schema
from oncue.stores.dynamodb.health import MOST_COUNTED, SHARD_WRITES, QueueLoad
from oncue.stores.dynamodb.skew import MOST_SKEW_SECONDS, ServiceClock
from oncue.stores.dynamodb.store import DynamoStore

MIGRATE = "Add what is missing: oncue migrate"
AHEAD_HOURS = 24
JOB_WRITES = 7
"""Write units of a plain job that is pulled and whose history is kept."""


def checks(app: App, *, quota: bool) -> Checks:
    cue, store = app.scheduler, app.scheduler.store
    assert isinstance(store, DynamoStore)

    @cache
    def describe() -> dict[str, Any]:
        return schema.describe(store.table)

    @cache
    def loads() -> list[QueueLoad]:
        return health.loads(store, store.clock.now())

    def oldest() -> findings.Oldest:
        yield from ((load.queue, load.oldest_due_at) for load in loads())

    found: Checks = {
        "table": _table(describe),
        "index": _index(describe),
        "time to live": _time_to_live(store),
        "lateness": findings.lateness(cue, oldest()),
        "paused queues": findings.paused(cue, oldest()),
        "shards": _shards(loads),
        "service's clock": _skew(store.clock),
        "throttles": _throttles(store),
    }
    return found | {"quota": _quota(app, store, loads)} if quota else found


def _table(describe: Callable[[], dict[str, Any]]) -> Iterator[DoctorFinding]:
    table = describe()
    name, status = table["TableName"], table["TableStatus"].lower()
    # The service counts both every six hours or so.
    about = f"about {counted(table['ItemCount'], 'item')}, {size(table['TableSizeBytes'])}"
    if schema.mode_of(table) == "PAY_PER_REQUEST":
        yield ok(f"{status}, on demand, {about}.")
        return
    units = table["ProvisionedThroughput"]["WriteCapacityUnits"]
    yield warn(
        f"{status}, {about}; provisioned for {units:,} write units per second: more are throttled.",
        "Unless you scale it yourself, bill it on demand: aws dynamodb update-table "
        f"--table-name {name} --billing-mode PAY_PER_REQUEST",
    )


def _index(describe: Callable[[], dict[str, Any]]) -> Iterator[DoctorFinding]:
    name = keys.INDEX
    found = [
        one for one in describe().get("GlobalSecondaryIndexes", ()) if one["IndexName"] == name
    ]
    if not found:
        yield bad(f"there is no index {name}: lost claims and schedules are not found.", MIGRATE)
        return
    [index] = found
    status, projection = index["IndexStatus"].lower(), index["Projection"]["ProjectionType"]
    if status != "active":
        yield warn(
            f"{name} is {status}: lost claims and schedules may not be found.", "Wait for it."
        )
    elif projection != "KEYS_ONLY":
        yield warn(
            f"{name} is active, but has more than keys ({projection}), which each write pays for.",
            f"Delete the index {name} while no process runs, then: oncue migrate",
        )
    else:
        yield ok(f"{name} is active, with keys only.")


def _time_to_live(store: DynamoStore) -> Iterator[DoctorFinding]:
    ttl = health.time_to_live(store)
    status, attribute = ttl.get("TimeToLiveStatus"), ttl.get("AttributeName")
    if status in ("ENABLED", "ENABLING") and attribute == "ttl":
        yield ok(f"{status.lower()}, by the attribute ttl.")
    elif status in ("ENABLED", "ENABLING"):
        todo = "Turn it off, wait an hour, then: oncue migrate"
        yield bad(f"goes by the attribute {attribute}: what is over stays for ever.", todo)
    else:
        yield bad("is not enabled: what is over stays for ever, and is paid for.", MIGRATE)


def _shards(loads: Callable[[], list[QueueLoad]]) -> Iterator[DoctorFinding]:
    """By what is due within a minute: how many jobs are stored is not known."""
    full = [load for load in loads() if load.busiest > MOST_COUNTED]
    for load in full:
        name = load.queue.name
        yield warn(
            f"queue {name} has {counted(load.shards, 'shard')}, and one of them has more than "
            f"{MOST_COUNTED:,} jobs that are due within a minute: more than {SHARD_WRITES} per "
            "second.",
            f"If that is usual, spread later jobs: oncue queues set {name} --shards "
            f"{load.shards * 2}, {findings.OTHERS} (docs/dynamodb.md says how many)",
        )
    if not full:
        most = max(loads(), key=lambda load: load.busiest, default=None)
        busiest = "" if most is None else f"; the busiest ({most.queue.name}) has {most.busiest:,}"
        yield ok(f"none has more than {MOST_COUNTED:,} jobs due within a minute{busiest}.")


def _skew(clock: Any) -> Iterator[DoctorFinding]:
    """After the other checks: each answer tells the time of the service."""
    if not isinstance(clock, ServiceClock) or clock.uncertainty_seconds is None:
        todo = "Let every proxy in between pass the header Date on."
        yield warn("the answers carry no Date, so it is not known.", todo)
        return
    ntp = "Set the clock of this machine, and keep it right with NTP."
    if abs(clock.skew_seconds) > MOST_SKEW_SECONDS:
        yield bad(f"{clock.skew_text}: no work is taken here.", ntp)
    elif clock.skew_seconds:
        yield warn(f"{clock.skew_text}: it is corrected, and jobs may be late by as much.", ntp)
    else:
        about = output.length(clock.uncertainty_seconds)
        yield ok(f"agrees with this machine's, as far as the answers tell (to {about}).")


def _throttles(store: DynamoStore) -> Iterator[DoctorFinding]:
    """Of this process only: others write them to their log."""
    if count := store.table.throttles.count:
        yield warn(
            f"{counted(count, 'request')} of this command {'was' if count == 1 else 'were'} "
            "throttled.",
            "See the metrics of the table (ThrottledRequests). A hot shard needs more shards, a "
            "new table time to grow; a table at its quota: oncue doctor --quota",
        )
    else:
        yield ok("none while this command looked; other processes log theirs.")


def _quota(
    app: App, store: DynamoStore, loads: Callable[[], list[QueueLoad]]
) -> Iterator[DoctorFinding]:
    allowed = health.write_quota(store)
    ahead = forecast.look_ahead(app, AHEAD_HOURS * 3_600_000, forecast.STEPS_MS["minute"])
    steps = core.forecast(ahead.dues, ahead.begins, ahead.until, 1.0)
    coming = max((step.due for step in steps), default=0)
    peak = max(coming, sum(sum(load.due) for load in loads()))
    units = -(-peak * JOB_WRITES // 60)
    text = (
        f"a table may have {allowed:,} write units per second. The busiest minute that is known "
        f"(the next one, and {AHEAD_HOURS} hours of schedules) has {counted(peak, 'job')}: up to "
        f"{counted(units, 'unit')} per second."
    )
    if units <= allowed:
        yield ok(text)
        return
    takes = output.length(peak * JOB_WRITES / allowed)
    yield warn(
        f"{text} At the quota they take {takes}.",
        "Ask AWS for more: Service Quotas, Amazon DynamoDB, table-level write throughput.",
    )
