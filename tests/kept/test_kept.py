"""A store and a dump of every earlier schema open, migrate and go on."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from oncue.clock import FakeClock
from oncue.core.errors import EventIdTaken, IdTaken
from oncue.core.job import JobFilter
from oncue.core.lifecycle import State
from oncue.core.queue import Queue
from oncue.scheduler import Scheduler
from oncue.stores.sqlite import SqliteStore
from oncue.stores.sqlite.connection import pragma
from oncue.stores.sqlite.statements import migrations
from oncue.transfer.restore import Restore
from tests.kept.__main__ import stamp

FOLDERS = sorted(folder for folder in Path(__file__).parent.glob("schema_*"))
HOUR = 3600


class Kept(NamedTuple):
    cue: Scheduler
    clock: FakeClock
    claims: dict[str, dict[str, str]]


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def folder(request: pytest.FixtureRequest) -> Path:
    chosen: Path = request.param
    return chosen


@pytest.fixture
def facts(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((folder / "facts.json").read_text())
    return told


@pytest.fixture
def kept(folder: Path, facts: dict[str, Any], tmp_path: Path) -> Iterator[Kept]:
    path = tmp_path / "jobs.db"
    path.write_bytes(gzip.decompress((folder / "jobs.db.gz").read_bytes()))
    clock = FakeClock(facts["now"])
    with Scheduler(SqliteStore(path, clock), clock=clock) as cue:
        yield Kept(cue, clock, facts["claims"])


def reclaim(kept: Kept) -> None:
    while kept.cue.engine.reclaimer.step() == 0.0:
        pass


def test_the_schema_is_brought_up_to_date(kept: Kept) -> None:
    store = kept.cue.store
    assert isinstance(store, SqliteStore)
    with store.db.reading() as tx:
        assert pragma(tx, "user_version") == len(migrations())
        assert tx.execute("PRAGMA integrity_check").get == "ok"


def test_waiting_jobs_are_handed_out_in_order_and_finish(kept: Kept) -> None:
    kept.clock.advance(61)
    done = []
    while claims := kept.cue.claim("mail", "new", limit=10):
        for claimed in claims:
            kept.cue.complete(claimed.id, kept.cue.token(claimed))
            done.append((claimed.id, claimed.attempt))
    assert done[0] == ("reclaimed", 2)
    assert done[1] == (kept.cue.job(done[1][0]).id, 1)
    assert kept.cue.job(done[1][0]).priority == 3
    assert len(done) == 5
    assert {kept.cue.job(job_id).state for job_id, _ in done} == {State.SUCCEEDED}


def test_a_retried_job_comes_back_at_its_time(kept: Kept) -> None:
    assert kept.cue.job("retried").state is State.SCHEDULED
    kept.clock.advance(2 * HOUR)
    claimed = {c.id: c for _ in range(20) for c in kept.cue.claim("mail", "new", limit=10)}
    assert claimed["retried"].attempt == 2


def test_ids_and_keys_are_still_known(kept: Kept) -> None:
    first = kept.cue.job("mine")
    assert kept.cue.schedule({"to": "eve"}, queue="mail", id="mine", delay=60).id == first.id
    with pytest.raises(IdTaken):
        kept.cue.schedule({"to": "somebody else"}, queue="mail", id="mine", delay=60)
    with pytest.raises(IdTaken):
        kept.cue.schedule("another", queue="forgetful", id="remembered")
    [bob] = kept.cue.page(JobFilter(queue="mail", key="bob")).items
    assert kept.cue.schedule({"to": "bob again"}, queue="mail", key="bob").id == bob.id


def test_a_live_claim_goes_on_with_its_old_token(kept: Kept) -> None:
    executing, dispatched = kept.claims["executing"], kept.claims["dispatched"]
    kept.cue.heartbeat(executing["id"], executing["token"], percent=50)
    stopping = kept.claims["asked to stop"]
    assert kept.cue.heartbeat(stopping["id"], stopping["token"]).cancel_requested
    kept.cue.start(dispatched["id"], dispatched["token"])
    for claim in (executing, dispatched):
        kept.cue.complete(claim["id"], claim["token"], {"done": True})
        kept.cue.complete(claim["id"], claim["token"], {"done": True})
        assert kept.cue.job(claim["id"]).state is State.SUCCEEDED
    names = [operation.name for operation in kept.cue.history(executing["id"]).operations]
    assert names == ["download", "encode"]


def test_a_live_claim_whose_worker_is_gone_is_taken_back(kept: Kept) -> None:
    reclaim(kept)
    kept.clock.advance(4 * HOUR)
    reclaim(kept)
    assert kept.cue.job("asked-to-stop").state is State.CANCELLED
    taken = {c.id: c for _ in range(3) for c in kept.cue.claim("live", "new")}
    assert taken.keys() == {"executing", "dispatched"}
    assert [o.name for o in taken["executing"].operations] == ["download", "encode"]


def test_the_range_of_a_dispatcher_that_died_is_taken_over(kept: Kept) -> None:
    queue = kept.cue.policies("out")
    assert kept.cue.job("in-a-range").state is State.DISPATCHED
    kept.clock.advance(31)
    claim = kept.cue.store.claim_range(queue, "new", 10, kept.clock.now(), lease_seconds=30)
    assert claim.jobs[0].id == "in-a-range"
    assert len(claim.jobs) == 2
    assert kept.cue.store.settle_range(claim, [j.id for j in claim.jobs], {}, kept.clock.now())
    assert kept.cue.job("in-a-range").state is State.SUCCEEDED


def test_settings_pauses_and_limits_stay(kept: Kept) -> None:
    queues = {queue.name: queue for queue in kept.cue.queues()}
    assert queues["mail"] == Queue("mail", lease_seconds=30, retention_seconds=3600)
    assert queues["held"].paused
    assert kept.cue.claim("held", "new") == []
    taken = []
    for _ in range(4):
        taken += kept.cue.claim("limited", "new", limit=5)
        kept.clock.advance(1)
    assert len(taken) == 2
    assert [token.id for token in kept.cue.store.tokens()] == ["a1"]


def test_finished_jobs_keep_their_history(kept: Kept) -> None:
    assert kept.cue.job("succeeded").result == {"sent": True}
    assert kept.cue.job("failed").error == "no such address"
    history = kept.cue.history("failed")
    assert [one.code for one in history.diagnostics] == ["failure"]
    assert [one.name for one in history.operations] == ["first"]
    assert kept.cue.retry("failed").state is State.SCHEDULED


def test_rules_go_on_from_what_they_had_accepted(kept: Kept) -> None:
    again = {"eventType": "FILE", "eventResourceId": "/in/a", "eventTimestamp": stamp(0)}
    [repeated] = kept.cue.publish([{**again, "eventId": "first"}])
    assert repeated.duplicate
    cron = {"eventType": "TIME_BASED", "eventResourceId": "cron", "eventTimestamp": stamp(30)}
    [answer] = kept.cue.publish([cron])
    assert [job.rule for job in answer.jobs] == ["half met"]
    assert kept.cue.rule("has fired").last_instant is not None


def test_ids_of_events_stay_theirs(kept: Kept) -> None:
    again = {"eventType": "FILE", "eventResourceId": "/in/a", "eventTimestamp": stamp(0)}
    [repeated] = kept.cue.publish([{**again, "eventId": "second"}])
    assert (repeated.duplicate, repeated.event.id) == (True, "first")
    for event_id in ("first", "second"):
        with pytest.raises(EventIdTaken):
            kept.cue.publish([{**again, "eventTimestamp": stamp(1), "eventId": event_id}])


def test_schedules_go_on_with_their_next_occurrence(kept: Kept) -> None:
    before = kept.cue.schedule_named("often").progress
    jobs = len(kept.cue.page(JobFilter(queue="beats")).items)
    kept.clock.advance(600)
    while kept.cue.engine.recurrer.step() == 0.0:
        pass
    after = kept.cue.schedule_named("often").progress
    assert before.next_at is not None
    assert after.last_at == before.next_at
    assert len(kept.cue.page(JobFilter(queue="beats")).items) == jobs + 1
    assert kept.cue.schedule_named("daily").progress.next_at is not None


def test_a_dump_of_that_version_restores(folder: Path, facts: dict[str, Any]) -> None:
    clock = FakeClock(facts["now"])
    with Scheduler("memory:", clock=clock) as cue:
        restore = Restore(cue.store)
        with (folder / "dump.ndjson").open("rb") as source:
            restore.read(source)
        restore.release()
        assert cue.job("failed").error == "no such address"
        assert cue.job("executing").state is State.EXECUTING
        assert cue.job("mine").payload == {"to": "eve"}
        clock.advance(61)
        assert cue.claim("mail", "new", limit=10)[0].id == "reclaimed"
