"""A dump in which a key passed from one job to another while it was written."""

from __future__ import annotations

from io import BytesIO

import pytest

from oncue.clock import FakeClock
from oncue.core.dumped import DumpedJob
from oncue.core.errors import KeyTaken
from oncue.core.lifecycle import State
from oncue.ports.store import Store
from oncue.transfer.dump import PAGE
from oncue.transfer.restore import Restore, Restored
from oncue.wire.dump import FORMAT, VERSION, DumpCounts, Header, JobLine, encode

from .conftest import OpenStore
from .desk import Desk
from .promises import exported


def found(desk: Desk, job_id: str) -> DumpedJob:
    """The job as an export has it now."""
    [one] = [one for one in exported(desk.store) if one.job.id == job_id]
    return one


def passed(desk: Desk, *, is_live: bool) -> list[DumpedJob]:
    """Jobs with the same key, each as it was before it ended and the next one got the key."""
    jobs = []
    for name in ("first", "second", "last"):
        desk.add(name, key="k")
        [claimed] = desk.claim() if is_live else [None]
        jobs.append(found(desk, name))
        if claimed is not None:
            assert desk.complete(claimed) is None
        else:
            assert desk.cancel(name).refused is None
    return jobs


def restored(
    store: Store, jobs: list[DumpedJob], between: int = 0, *, dry_run: bool = False
) -> Restored:
    """From a dump with these jobs, and so many others behind each of them."""
    lines = [encode(Header(FORMAT, VERSION, "0", "2026-01-01T00:00:00.000Z", {}))]
    for one in jobs:
        others = [one.job._replace(id=f"{one.job.id}-{n}", key=None) for n in range(between)]
        lines += (
            encode(JobLine.of_dumped(DumpedJob(job, one.history))) for job in [one.job, *others]
        )
    lines.append(encode(DumpCounts(len(lines) - 1, 0)))
    return Restore(store, dry_run=dry_run).read(BytesIO(b"".join(lines)))


@pytest.mark.parametrize("is_live", [False, True])
@pytest.mark.parametrize("between", [0, PAGE // 2])
def test_the_last_job_gets_the_key_and_those_before_it_are_over(
    desk: Desk, open_store: OpenStore, clock: FakeClock, is_live: bool, between: int
) -> None:
    """In one page of the dump, or in several."""
    jobs = passed(desk, is_live=is_live)
    there = Desk(open_store(clock), clock)
    assert restored(there.store, jobs, between, dry_run=True).stored == 3 + 3 * between
    for stored in (3 + 3 * between, 0):
        assert restored(there.store, jobs, between).stored == stored
        states = [there.state(one.job.id) for one in jobs]
        assert states[:2] == [State.CANCELLED] * 2
        assert states[2] is jobs[2].job.state
        assert there.codes("first")[-1:] == ["superseded"]


def test_a_job_that_the_store_had_keeps_its_key(
    desk: Desk, open_store: OpenStore, clock: FakeClock
) -> None:
    jobs = passed(desk, is_live=False)
    there = Desk(open_store(clock), clock)
    there.add("mine", key="k")
    for dry_run in (True, False):
        with pytest.raises(KeyTaken, match="job first"):
            restored(there.store, jobs, dry_run=dry_run)
    assert there.state("mine") is State.SCHEDULED


def test_a_repeated_restore_does_not_end_a_job_that_has_got_its_key_again(
    desk: Desk, open_store: OpenStore, clock: FakeClock
) -> None:
    jobs = passed(desk, is_live=False)
    there = Desk(open_store(clock), clock)
    restored(there.store, jobs)
    assert there.cancel("last").refused is None
    assert there.revive("first").refused is None
    assert restored(there.store, jobs).stored == 0
    assert there.state("first") is State.SCHEDULED


def test_a_job_that_is_in_a_dump_twice_does_not_end_itself(
    desk: Desk, open_store: OpenStore, clock: FakeClock
) -> None:
    desk.add("first", key="k")
    before = found(desk, "first")
    desk.claim()
    there = Desk(open_store(clock), clock)
    assert restored(there.store, [before, found(desk, "first")]).stored == 1
    assert there.state("first") is State.SCHEDULED
