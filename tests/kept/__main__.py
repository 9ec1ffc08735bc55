"""Write a store of the present schema into a folder, to be kept: `python -m tests.kept FOLDER`.

Run it before a change of the schema is released, and commit the folder. `test_kept` opens every
folder here with the present code.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from oncue.clock import FakeClock
from oncue.core.access import AccessToken, Scope
from oncue.scheduler import Scheduler
from oncue.stores.sqlite import SqliteStore
from oncue.transfer import dump

START = 1_800_000_000_000
FILE = {"type": "FILE", "resourceId": "/in/", "lifeDuration": 3600}
CRON = {"type": "TIME_BASED", "resourceId": "cron", "lifeDuration": 0}


def stamp(second: int) -> str:
    return f"2027-01-15T07:50:{second:02}Z"


def fill(cue: Scheduler, clock: FakeClock) -> dict[str, Any]:
    """Something of every kind that a store can hold. Answers with what only its makers know."""
    facts: dict[str, Any] = {}
    cue.set_queue("mail", lease_seconds=30, max_attempts=3, retention_seconds=3600)
    cue.set_queue("limited", rate_per_second=5, concurrency=2)
    cue.set_queue("out", sink="log:", lease_seconds=30)
    cue.set_queue("forgetful", retention_seconds=0)
    cue.pause("held")
    _finished(cue, clock)
    _live(cue, facts)
    _rules(cue)
    cue.put_schedule("often", every_seconds=600, queue="beats")
    cue.put_schedule("daily", cron="0 9 * * *", timezone="Europe/Berlin", queue="beats")
    cue.put_schedule(
        "bell", every_seconds=900, emits={"eventType": "TIME_BASED", "eventResourceId": "bell"}
    )
    clock.advance(601)
    while cue.engine.recurrer.step() == 0.0:
        pass
    _waiting(cue)
    facts["claims"]["dispatched"] = _claim(cue, "live", "taken last")
    cue.schedule("under way", queue="out", id="in-a-range")
    cue.store.claim_range(
        cue.policies("out"), "a dispatcher that died", 10, clock.now(), lease_seconds=30
    )
    cue.schedule("late arrival", queue="out", delay=1)
    cue.store.put_token(AccessToken("a1", "ci", bytes(32), frozenset({Scope.READ}), clock.now()))
    facts["now"] = clock.now()
    return facts


def _claim(cue: Scheduler, queue: str, worker: str) -> dict[str, str]:
    [claimed] = cue.claim(queue, worker)
    return {"id": claimed.id, "token": cue.token(claimed)}


def _finished(cue: Scheduler, clock: FakeClock) -> None:
    for name in ("succeeded", "failed", "retried", "reclaimed"):
        cue.schedule({"n": name}, queue="mail", id=name)
        clock.advance(1)
    for name in ("succeeded", "failed", "retried", "reclaimed"):
        [claimed] = cue.claim("mail", "worker")
        assert claimed.id == name
        token = cue.token(claimed)
        if name == "succeeded":
            cue.complete(name, token, {"sent": True})
        elif name == "failed":
            cue.operation(name, token, "first", "succeeded", result=1)
            cue.fail(name, token, "no such address", retryable=False)
        elif name == "retried":
            cue.fail(name, token, "busy", retry_after=7200)
    clock.advance(31)
    while cue.engine.reclaimer.step() == 0.0:
        pass
    cue.schedule(queue="mail", id="cancelled", delay=60)
    cue.cancel("cancelled")
    cue.schedule(queue="forgetful", id="remembered")
    [claimed] = cue.claim("forgetful", "worker")
    cue.complete("remembered", cue.token(claimed))


def _live(cue: Scheduler, facts: dict[str, Any]) -> None:
    cue.set_queue("live", lease_seconds=3600)
    claims = facts["claims"] = {}
    cue.schedule({"long": True}, queue="live", id="executing")
    claims["executing"] = _claim(cue, "live", "taken first")
    cue.operation("executing", claims["executing"]["token"], "download", "succeeded", result="f")
    cue.operation("executing", claims["executing"]["token"], "encode", "executing", percent=40)
    cue.schedule({}, queue="live", id="asked-to-stop")
    claims["asked to stop"] = _claim(cue, "live", "taken second")
    cue.cancel("asked-to-stop", running=True)
    cue.schedule({}, queue="live", id="dispatched")


def _rules(cue: Scheduler) -> None:
    cue.put_rule("half met", [FILE, CRON], queue="fired")
    cue.put_rule("has fired", [FILE], queue="fired")
    file = {"eventType": "FILE", "eventResourceId": "/in/a", "eventTimestamp": stamp(0)}
    cue.publish([{**file, "eventId": "first"}])


def _waiting(cue: Scheduler) -> None:
    cue.schedule({"to": "ada"}, queue="mail", delay=60, owner="ada", priority=3)
    cue.schedule({"to": "bob"}, queue="mail", delay=60, key="bob")
    cue.schedule({"to": "eve"}, queue="mail", id="mine", delay=60)
    cue.schedule(queue="mail", delay=60, expires_at="2030-01-01T00:00:00Z", max_attempts=5)
    cue.schedule(queue="held")
    cue.schedule_many(({"payload": n} for n in range(5)), queue="limited")


def write(folder: Path) -> None:
    folder.mkdir(parents=True)
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "jobs.db"
        clock = FakeClock(START)
        store = SqliteStore(path, clock)
        cue = Scheduler(store, clock=clock)
        facts = fill(cue, clock)
        with (folder / "dump.ndjson").open("wb") as out:
            dump.Dump(store, out).write()
        cue.close()
        packed = gzip.compress(path.read_bytes(), mtime=0)
    (folder / "jobs.db.gz").write_bytes(packed)
    (folder / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
