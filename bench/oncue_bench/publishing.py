"""Publishing events to a store that has many rules, as its users do it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

from oncue.core.event import EventType
from oncue.core.rule import Dependency
from oncue.core.stamp import render
from oncue.scheduler import Scheduler
from oncue.stores.sqlite.connection import connect, prepare

LIFE_SECONDS = 3600
CRON_EACH = 10  # events, of which it is the last: every tenth fires a job
_START = 1_609_459_200_000_000  # 2021-01-01T00:00:00Z
_RULE = """
INSERT INTO rules (n, name, enabled, queue, payload, created_at, updated_at)
VALUES (?1, ?2, 1, 'rules', CAST('null' AS BLOB), 0, 0)
"""
_DEPENDENCY = """
INSERT INTO dependencies (rule_n, position, type, resource, key, below, life_seconds)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 3600)
"""

Figures = dict[str, Any]


def seed_rules(path: str, count: int) -> Figures:
    """A file with so many rules, each waiting for a folder of its own and a cron of its own."""
    prepare(Path(path))
    connection = connect(Path(path))
    with connection:
        connection.executemany(_RULE, ((n, f"other {n}") for n in range(1, count + 1)))
        connection.executemany(_DEPENDENCY, _dependencies(count))
    connection.close()
    return {"count": count}


def one_by_one(paths: list[str], count: int, rounds: int) -> Figures:
    """Publish events one by one to each of the files, in short turns in one process: the time a
    disk takes for a commit changes from second to second by more than what is measured here."""
    seconds: dict[str, list[float]] = {path: [] for path in paths}
    with ExitStack() as stack:
        cues = {path: stack.enter_context(Scheduler(f"sqlite:///{path}")) for path in paths}
        for cue in cues.values():
            _put_rule(cue)
        for turn in range(rounds + 1):
            events = [_event(number) for number in range(turn * count, (turn + 1) * count)]
            for path in paths if turn % 2 else reversed(paths):
                publish = cues[path].publish
                began = perf_counter()
                for event in events:
                    publish(event)
                seconds[path].append(perf_counter() - began)
    return {"seconds": {path: each[1:] for path, each in seconds.items()}}  # the first warms up


def in_lists(path: str, count: int, size: int) -> Figures:
    """Publish events in lists of that size."""
    with Scheduler(f"sqlite:///{path}") as cue:
        _put_rule(cue)
        events = [_event(number) for number in range(count)]
        began = perf_counter()
        for start in range(0, count, size):
            cue.publish(events[start : start + size])
        return {"count": count, "seconds": perf_counter() - began}


def _put_rule(cue: Scheduler) -> None:
    """The one rule among the others that the events match."""
    files = Dependency(EventType.FILE, "/bench/in/", LIFE_SECONDS)
    cue.put_rule("bench", [files, Dependency(EventType.TIME_BASED, "bench", 0)])


def _dependencies(count: int) -> Any:
    for n in range(1, count + 1):
        yield n, 0, "FILE", f"/other/{n}/", f"/other/{n}", 1
        yield n, 1, "TIME_BASED", f"cron {n}", f"cron {n}", 0


def _event(number: int) -> dict[str, str]:
    at = {"eventTimestamp": render(_START + number * 1000)}
    if number % CRON_EACH == CRON_EACH - 1:
        return {"eventType": "TIME_BASED", "eventResourceId": "bench", **at}
    return {"eventType": "FILE", "eventResourceId": f"/bench/in/{number}.csv", **at}
