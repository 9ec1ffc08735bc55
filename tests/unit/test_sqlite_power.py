"""The power goes: whatever the disk keeps of what was not synced, what was acknowledged is kept."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from oncue import Scheduler
from oncue.clock import FakeClock
from oncue.stores.sqlite import SqliteStore
from oncue.stores.sqlite.connection import pragma
from tests.contract.desk import claim_due

SECTOR = 512


class Machine:
    """A store, and the machine it runs on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "jobs.db"
        self.store = SqliteStore(self.path, FakeClock())
        self.cue = Scheduler(self.store)
        self._restarts = 0

    @property
    def log_size(self) -> int:
        return self.path.with_name("jobs.db-wal").stat().st_size

    def cut_power(
        self, keep: int | None = None, random: random.Random | None = None
    ) -> SqliteStore:
        """What another machine finds on this one's disk. Of the log only `keep` bytes are sure to
        be there; what comes after is torn, sector by sector."""
        self._restarts += 1
        place = self.folder / f"after{self._restarts}"
        place.mkdir()
        shutil.copy(self.path, place / "jobs.db")
        log = self.path.with_name("jobs.db-wal").read_bytes()
        if keep is not None and random is not None:
            log = _torn(log, keep, random)
        (place / "jobs.db-wal").write_bytes(log)
        return SqliteStore(place / "jobs.db", FakeClock())


def _torn(log: bytes, keep: int, random: random.Random) -> bytes:
    log = log[: random.randint(keep, len(log))]
    sectors = [log[at : at + SECTOR] for at in range(keep, len(log), SECTOR)]
    for place, sector in enumerate(sectors):
        fate = random.random()
        if fate < 0.2:
            sectors[place] = bytes(len(sector))
        elif fate < 0.3:
            sectors[place] = random.randbytes(len(sector))
    return log[:keep] + b"".join(sectors)


def check(store: SqliteStore, acknowledged: set[str], asked: set[str]) -> set[str]:
    """What is there: all that was acknowledged, nothing that was not asked for, in good order."""
    with closing(store):
        with store.db.reading() as tx:
            assert tx.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        there = {job.id for job in Scheduler(store).jobs()}
        assert acknowledged <= there <= asked
        assert claim_due(store, [*store.queues()], "ada", 5000, store.clock.now())
        return there


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine.store.close()


def test_what_was_acknowledged_survives_at_any_point(machine: Machine) -> None:
    acknowledged: set[str] = set()
    for n in range(40):
        acknowledged.add(machine.cue.schedule({"n": n}, delay=0).id)
        if n % 4 == 0:
            assert check(machine.cut_power(), acknowledged, acknowledged) == acknowledged


@pytest.mark.parametrize("seed", range(20))
def test_what_was_not_synced_may_be_torn_and_harms_nothing(machine: Machine, seed: int) -> None:
    dice = random.Random(seed)
    before = {
        machine.cue.schedule("x" * dice.randrange(20_000)).id for _ in range(dice.randrange(1, 10))
    }
    synced = machine.log_size
    after = {machine.cue.schedule("x" * dice.randrange(20_000)).id for _ in range(5)}
    check(machine.cut_power(synced, dice), before, before | after)


@pytest.mark.parametrize("seed", range(10))
def test_a_torn_batch_is_there_as_a_whole_or_not_at_all(machine: Machine, seed: int) -> None:
    dice = random.Random(seed)
    before = {machine.cue.schedule().id}
    synced = machine.log_size
    batch = set(machine.cue.schedule_many({"payload": "x" * 500} for _ in range(200)).ids)
    there = check(machine.cut_power(synced, dice), before, before | batch)
    assert there in (before, before | batch)


@pytest.mark.parametrize("seed", range(10))
def test_claims_and_ends_survive_like_jobs_do(machine: Machine, seed: int) -> None:
    dice = random.Random(seed)
    cue = machine.cue
    ids = cue.schedule_many({"queue": "q"} for _ in range(20)).ids
    taken = cue.claim("q", "ada", limit=10)
    for claimed in taken[:5]:
        cue.complete(claimed.id, cue.token(claimed), {"done": True})
    synced = machine.log_size
    for claimed in taken[5:]:
        cue.fail(claimed.id, cue.token(claimed), "boom")
    with closing(machine.cut_power(synced, dice)) as found:
        again = Scheduler(found)
        for claimed in taken[:5]:
            assert again.job(claimed.id).result == {"done": True}
        for claimed in taken[5:]:
            assert again.job(claimed.id).attempt == 1
        assert {job.id for job in again.jobs()} == set(ids)
        assert again.token(taken[9]) == cue.token(taken[9])


def test_a_claim_that_a_power_cut_loses_is_made_again(machine: Machine) -> None:
    """Its worker had opened the file, so it is gone as well."""
    job_id = machine.cue.schedule(queue="q").id
    synced = machine.log_size
    source = machine.cue.claim_source("ada")
    claimed = source.claim("q", 1, machine.store.clock.now())
    assert claimed is not None
    with closing(machine.cut_power(synced, _Nothing())) as found:
        again = Scheduler(found)
        assert again.job(job_id).attempt == 0
        [taken] = again.claim("q", "bob")
        assert (taken.id, taken.attempt) == (job_id, claimed.claims[0].attempt)
        again.complete(taken.id, again.token(taken))


class _Nothing(random.Random):
    """Of what was not synced, nothing was written."""

    def randint(self, least: int, most: int) -> int:
        return least


@pytest.mark.parametrize("near", [True, False])
def test_only_the_claim_of_a_worker_that_opened_the_file_does_not_wait_for_the_disk(
    machine: Machine, near: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[object] = []
    connection = machine.store.db.writer.connection
    committed = machine.store.db.writer._committed

    def note() -> None:
        waited.append(pragma(connection, "synchronous"))
        committed()

    machine.cue.schedule(queue="q")
    monkeypatch.setattr(machine.store.db.writer, "_committed", note)
    if near:
        assert machine.cue.claim_source("ada").claim("q", 1, machine.store.clock.now())
    else:
        assert machine.cue.claim("q", "ada")
    machine.cue.schedule()
    full, normal = 2, 1
    assert waited == [normal if near else full, full]


@pytest.mark.parametrize("seed", range(5))
def test_it_does_not_matter_how_much_of_the_log_was_moved_into_the_file(
    machine: Machine, seed: int
) -> None:
    dice = random.Random(seed)
    before = {machine.cue.schedule("x" * 5000).id for _ in range(20)}
    machine.store.db.writer.connection.wal_checkpoint()
    before |= {machine.cue.schedule("y" * 5000).id for _ in range(dice.randrange(5))}
    assert check(machine.cut_power(), before, before) == before


def test_a_log_that_was_used_before_does_not_bring_the_past_back(machine: Machine) -> None:
    """After a checkpoint the log is written from its beginning, over old frames."""
    first = {machine.cue.schedule("x" * 5000).id for _ in range(30)}
    machine.store.db.writer.connection.wal_checkpoint()
    for job_id in first:
        machine.cue.cancel(job_id)
    last = machine.cue.schedule("y").id
    with closing(machine.cut_power()) as found:
        states = {job.id: str(job.state) for job in Scheduler(found).jobs()}
    assert states == {**dict.fromkeys(first, "cancelled"), last: "scheduled"}


def test_nothing_is_left_beside_the_file_when_it_was_closed(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db", FakeClock())
    Scheduler(store).schedule()
    store.close()
    assert os.listdir(tmp_path) == ["jobs.db"]
