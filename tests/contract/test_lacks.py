"""What a store lacks it says of itself, and it refuses the calls that need it by name."""

from __future__ import annotations

from functools import partial

import pytest

from oncue.core.bulk import BulkChange, BulkVerb
from oncue.core.errors import NotSupported
from oncue.core.job import JobFilter
from oncue.core.lacks import Lack
from oncue.core.publication import EventFilter
from oncue.core.queue import QueueStats
from oncue.core.retention import Retention
from oncue.ports.store import Store
from tests.stores.kinds import LACKS
from tests.stores.lacking import EVERY_LACK, lacking

from .desk import Desk
from .promises import every, exported, found_by, listed


@pytest.fixture
def poor(store: Store) -> Store:
    """The store under test, without whatever a store may lack. What it lacks by itself it refuses
    by itself."""
    return lacking(store, EVERY_LACK - store.traits.lacks)


def lack_of(error: pytest.ExceptionInfo[NotSupported]) -> str:
    assert f"it lacks {error.value.lack!r})" in str(error.value)
    assert "oncue dump" in str(error.value), "what to do instead is said"
    return error.value.lack


def test_a_store_says_what_it_lacks(
    request: pytest.FixtureRequest, store: Store, poor: Store
) -> None:
    kind = request.node.callspec.params["open_store"]
    assert store.traits.lacks == LACKS.get(kind, frozenset())
    assert poor.traits.lacks == EVERY_LACK


@pytest.mark.needs("counts")
def test_a_store_that_counts_counts(desk: Desk) -> None:
    desk.add()
    assert desk.store.stats("q").counts
    assert desk.store.due_counts("q", 0, desk.now + 1, desk.now + 1)


def test_without_counts_a_queue_has_no_numbers_and_due_counts_are_refused(poor: Store) -> None:
    assert poor.stats("q") == QueueStats({}, None)
    assert poor.live_count() is None
    with pytest.raises(NotSupported, match="it lacks 'counts'") as caught:
        poor.due_counts("q", 0, 10, 1)
    assert lack_of(caught) == "counts"


def test_without_all_jobs_a_list_of_all_queues_is_refused(desk: Desk, poor: Store) -> None:
    job_id = desk.add(owner="o", key="k")
    cancel = BulkChange(BulkVerb.CANCEL, desk.now)
    with pytest.raises(NotSupported, match="it lacks 'all-jobs'") as caught:
        poor.page(JobFilter(due_after=0), None, 10)
    assert lack_of(caught) == "all-jobs"
    with pytest.raises(NotSupported, match="it lacks 'all-jobs'") as caught:
        poor.find_all(cancel, JobFilter(), None, 10)
    assert lack_of(caught) == "all-jobs"
    for wanted in (JobFilter("q"), JobFilter(owner="o"), JobFilter("q", key="k")):
        assert [job.id for job in listed(poor, wanted)] == [job_id]
        assert found_by(poor, cancel, wanted) == [job_id]
    assert [one.job.id for one in exported(poor)] == [job_id], "a dump reads all"


def test_without_all_events_a_list_of_all_rules_is_refused(poor: Store) -> None:
    with pytest.raises(NotSupported, match="it lacks 'all-events'") as caught:
        poor.events(EventFilter(), None, 10)
    assert lack_of(caught) == "all-events"
    assert every(partial(poor.events, EventFilter("r"))) == []
    assert every(poor.export_events) == []


def test_without_prune_counts_it_prunes_and_does_not_say_how_many(desk: Desk, poor: Store) -> None:
    desk.complete(desk.take())
    pruned = poor.prune(Retention({"q": desk.now + 1}), desk.now + 1, 10)
    assert pruned.jobs is None
    assert listed(poor, JobFilter("q")) == []


@pytest.mark.needs(*EVERY_LACK)
@pytest.mark.parametrize("lack", sorted(EVERY_LACK))
def test_a_store_may_lack_one_thing_alone(store: Store, lack: Lack) -> None:
    assert lacking(store, frozenset({lack})).traits.lacks == {lack}
