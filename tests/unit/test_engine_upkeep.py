"""The reclaimer, the pruner, the keeper and the policies, driven by hand."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import Any

import pytest

from oncue.clock import FakeClock
from oncue.core.errors import StoreUnavailable
from oncue.core.fencing import Refused, Settlement
from oncue.core.job import NewJob
from oncue.core.lease import Touch
from oncue.core.lifecycle import State, Verb
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.engine.keeper import Keeper
from oncue.engine.node import Node
from oncue.engine.policies import Policies
from oncue.engine.pruner import CHUNK, Pruner
from oncue.engine.reclaimer import LONGEST_REST_SECONDS, PAGE, Reclaimer
from oncue.ports.claims import ClaimFilter, ClaimPage, Leases
from oncue.stores.memory import MemoryStore
from oncue.usecases.queues import put_queue
from tests.contract.desk import claim_due


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_000_000)


class FlakyStore(MemoryStore):
    away = False

    def live_claims(self, wanted: ClaimFilter, after: str | None, limit: int) -> ClaimPage:
        if self.away:
            raise StoreUnavailable("connection lost")
        return super().live_claims(wanted, after, limit)

    def leases(self) -> Leases:
        if self.away:
            raise StoreUnavailable("connection lost")
        return super().leases()


@pytest.fixture
def store(clock: FakeClock) -> FlakyStore:
    return FlakyStore(clock)


@pytest.fixture
def reclaimer(store: FlakyStore, clock: FakeClock) -> Reclaimer:
    return Reclaimer(Node.of(store, clock))


def add(store: MemoryStore, *ids: str, expires_at: Moment | None = None) -> None:
    now = store.clock.now()
    jobs = [NewJob(i, "work", now, b"secret", 0, now, expires_at=expires_at) for i in ids]
    store.insert(jobs, now)


def claim(store: MemoryStore, limit: int = 1, lease_seconds: float = 60.0) -> None:
    queue = Queue("work", lease_seconds=lease_seconds)
    assert claim_due(store, [queue], "worker", limit, store.clock.now())


def state(store: MemoryStore, job_id: str) -> State:
    job = store.get(job_id)
    assert job is not None
    return job.state


def test_a_silent_claim_is_due_again_and_logged_without_its_payload(
    store: FlakyStore,
    clock: FakeClock,
    reclaimer: Reclaimer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    add(store, "a")
    claim(store)
    reclaimer.step()
    assert state(store, "a") is State.DISPATCHED
    clock.advance(61)
    reclaimer.step()
    assert state(store, "a") is State.SCHEDULED
    assert "job a (queue work, attempt 1, worker worker)" in caplog.text
    assert "secret" not in caplog.text


def test_claims_that_are_being_settled_keep_nobody_from_the_next_page(
    store: FlakyStore, clock: FakeClock, reclaimer: Reclaimer, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [f"held-{n:03}" for n in range(PAGE)]
    add(store, *held)
    claim(store, PAGE)
    add(store, "last")
    claim(store)
    reclaim = MemoryStore.reclaim

    def skip_held(self: MemoryStore, verdicts: Any, now: Moment) -> dict[int, Refused]:
        free = [one for one in verdicts if one[0].id not in held]
        assert not reclaim(self, free, now)
        return {
            at: Refused("moved on", None) for at, (one, _) in enumerate(verdicts) if one.id in held
        }

    monkeypatch.setattr(MemoryStore, "reclaim", skip_held)
    clock.advance(61)
    assert reclaimer.step() < LONGEST_REST_SECONDS
    assert state(store, "last") is State.SCHEDULED
    assert reclaimer.step() == LONGEST_REST_SECONDS  # only those are left


def test_the_last_attempt_that_lapses_fails(
    store: FlakyStore, clock: FakeClock, reclaimer: Reclaimer
) -> None:
    put_queue(store, Queue("work", max_attempts=1))
    add(store, "a")
    claim(store)
    clock.advance(61)
    reclaimer.step()
    assert state(store, "a") is State.FAILED


def test_jobs_that_expired_before_they_were_taken_are_cancelled(
    store: FlakyStore, clock: FakeClock, reclaimer: Reclaimer
) -> None:
    add(store, "a", expires_at=clock.now() + 1000)
    assert reclaimer.step() == 1.0
    clock.advance(1)
    reclaimer.step()
    assert state(store, "a") is State.CANCELLED


def test_the_reclaimer_rests_until_the_next_lapse_and_never_long(
    store: FlakyStore, clock: FakeClock, reclaimer: Reclaimer
) -> None:
    assert reclaimer.step() == 2.0
    add(store, "a")
    claim(store, lease_seconds=60)
    assert reclaimer.step() == 2.0
    clock.advance(59.5)
    assert reclaimer.step() == 0.5


def test_a_lapse_that_cannot_be_ended_yet_is_not_looked_at_all_the_time(
    store: FlakyStore, clock: FakeClock, reclaimer: Reclaimer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As DynamoDB tells of a job that would have expired, and is in an open range."""
    expiry = clock.now() + 1000
    monkeypatch.setattr(store, "leases", lambda: Leases(False, None, expiry))
    assert reclaimer.step() == 1.0
    clock.advance(1)
    assert reclaimer.step() == 2.0


def test_a_full_page_of_lapses_is_followed_by_the_next_at_once(
    store: FlakyStore, clock: FakeClock, reclaimer: Reclaimer
) -> None:
    add(store, *(f"job-{number}" for number in range(PAGE + 1)))
    claim(store, limit=PAGE + 1)
    clock.advance(61)
    assert reclaimer.step() == 0.0
    assert reclaimer.step() == 2.0
    assert store.stats("work").counts[State.SCHEDULED] == PAGE + 1


def test_leases_are_extended_by_an_outage_of_the_store(
    store: FlakyStore, clock: FakeClock, reclaimer: Reclaimer
) -> None:
    add(store, "a")
    claim(store, lease_seconds=10)
    clock.advance(2)
    reclaimer.step()
    store.away = True
    clock.advance(5)
    with pytest.raises(StoreUnavailable):
        reclaimer.step()
    clock.advance(95)
    store.away = False
    reclaimer.step()
    clock.advance(7.999)
    reclaimer.step()
    assert state(store, "a") is State.DISPATCHED
    clock.advance(0.001)
    reclaimer.step()
    assert state(store, "a") is State.SCHEDULED


def test_a_heartbeat_after_an_outage_saves_the_claim(
    store: FlakyStore, clock: FakeClock, reclaimer: Reclaimer
) -> None:
    add(store, "a")
    claim(store, lease_seconds=10)
    store.away = True
    with pytest.raises(StoreUnavailable):
        reclaimer.step()
    clock.advance(100)
    store.away = False
    reclaimer.step()
    store.touch([Touch("a", 1, 10.0)], clock.now())
    clock.advance(9.999)
    reclaimer.step()
    assert state(store, "a") is State.EXECUTING


def test_a_wall_clock_set_forward_reclaims_nothing_that_is_heard_again(
    store: FlakyStore, clock: FakeClock, reclaimer: Reclaimer
) -> None:
    add(store, "a", "b")
    claim(store, limit=2, lease_seconds=10)
    reclaimer.step()
    clock.advance(1)
    clock.set(clock.now() + 3_600_000)
    reclaimer.step()
    store.touch([Touch("a", 1, 10.0)], clock.now())
    clock.advance(8.999)
    reclaimer.step()
    assert {state(store, "a"), state(store, "b")} == {State.EXECUTING, State.DISPATCHED}
    clock.advance(0.001)
    reclaimer.step()
    assert {state(store, "a"), state(store, "b")} == {State.EXECUTING, State.SCHEDULED}


def finish(store: MemoryStore, *ids: str) -> None:
    add(store, *ids)
    claim(store, limit=len(ids))
    settlements = [Settlement(job_id, 1, Verb.COMPLETE) for job_id in ids]
    assert store.settle(settlements, store.clock.now()).refused == {}


def test_what_is_only_remembered_is_forgotten_although_its_queue_was_deleted(
    clock: FakeClock,
) -> None:
    store = MemoryStore(clock)
    now = clock.now()
    new = NewJob("mine", "work", now, b"{}", 0, now, digest=b"d")
    store.insert([new], now)
    claim(store)
    assert store.settle([Settlement("mine", 1, Verb.COMPLETE)], clock.now()).refused == {}
    assert store.delete_queue("work", clock.now(), 10).outcome == "deleted"
    pruner = Pruner(Node.of(store, clock))
    pruner.step()
    assert store.insert([new], clock.now())[0].kind == "existing"
    clock.advance(86_401)
    pruner.step()
    assert store.insert([new], clock.now()) == {}


def test_finished_jobs_go_when_their_retention_is_over_and_unfinished_ones_stay(
    store: FlakyStore, clock: FakeClock
) -> None:
    put_queue(store, Queue("work", retention_seconds=10))
    finish(store, "done")
    add(store, "waiting")
    pruner = Pruner(Node.of(store, clock))
    clock.advance(9)
    assert pruner.step() == 60.0
    assert store.get("done") is not None
    clock.advance(2)
    pruner.step()
    assert store.get("done") is None
    assert store.get("waiting") is not None


def test_without_a_retention_history_is_kept(store: FlakyStore, clock: FakeClock) -> None:
    put_queue(store, Queue("work", retention_seconds=None))
    finish(store, "done")
    clock.advance(10**9)
    Pruner(Node.of(store, clock)).step()
    assert store.get("done") is not None


def test_a_full_chunk_is_followed_by_the_next_after_a_short_rest(
    store: FlakyStore, clock: FakeClock
) -> None:
    put_queue(store, Queue("work", retention_seconds=10))
    finish(store, *(f"job-{number}" for number in range(CHUNK + 1)))
    clock.advance(11)
    pruner = Pruner(Node.of(store, clock))
    assert pruner.step() == 0.05
    assert pruner.step() == 60.0
    assert store.stats("work").counts.get(State.SUCCEEDED, 0) == 0


def test_a_kept_lease_is_renewed_at_its_pace_until_the_block_ends(clock: FakeClock) -> None:
    keeper = Keeper(clock)
    renewals: list[Moment] = []

    def renew() -> bool:
        renewals.append(clock.now())
        return True

    with keeper.keeping(renew, 60.0, clock.monotonic()) as kept:
        assert keeper.step() == 20.0
        clock.advance(20)
        assert keeper.step() == 20.0
        clock.advance(5)
        assert keeper.step() == 15.0
        assert not kept.lost
    clock.advance(100)
    assert keeper.step() is None
    assert renewals == [1_020_000]


def test_a_lease_whose_keeping_was_interrupted_as_it_began_is_not_renewed(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Keeper(clock)

    def interrupt(due_at: Moment) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(keeper.loop, "wake_for", interrupt)
    with pytest.raises(KeyboardInterrupt), keeper.keeping(lambda: True, 60.0, clock.monotonic()):
        raise AssertionError("it never begins")
    clock.advance(20)
    assert keeper.step() is None


def test_a_lease_that_was_taken_over_is_not_renewed_again(clock: FakeClock) -> None:
    keeper = Keeper(clock)
    with keeper.keeping(lambda: False, 60.0, clock.monotonic()) as kept:
        clock.advance(20)
        assert keeper.step() is None
        assert kept.lost


def test_a_renewal_that_fails_is_tried_again_soon_and_disturbs_no_other(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = Keeper(clock)
    others: list[Moment] = []

    def fail() -> bool:
        raise StoreUnavailable("locked")

    def renew() -> bool:
        others.append(clock.now())
        return True

    since = clock.monotonic()
    with keeper.keeping(fail, 60.0, since), keeper.keeping(renew, 60.0, since):
        clock.advance(20)
        assert keeper.step() == 1.0
        clock.advance(1)
        assert keeper.step() == 1.0
    assert others == [1_020_000]
    assert caplog.text.count("locked") == 1


def test_a_lease_is_given_up_in_time_while_the_store_holds_up_the_renewals_of_others(
    clock: FakeClock,
) -> None:
    """Every renewal waits 10 s for a locked file; the sixth would only be tried after 50 s."""
    keeper = Keeper(clock)
    given_up: list[tuple[float, list[bool]]] = []

    def locked() -> bool:
        for _ in range(10):
            clock.advance(1)
            given_up.append((clock.monotonic() - since, [kept.lost for kept in all_kept]))
        raise StoreUnavailable("locked")

    since = clock.monotonic()
    with ExitStack() as leases:
        all_kept = [leases.enter_context(keeper.keeping(locked, 60.0, since)) for _ in range(6)]
        clock.advance(20)
        keeper.step()
    for seconds, lost in given_up:
        assert lost == [seconds >= 40] * 6


def test_a_renewal_that_is_answered_too_late_does_not_bring_a_lease_back(clock: FakeClock) -> None:
    keeper = Keeper(clock)

    def late() -> bool:
        clock.advance(25)
        assert kept.lost
        return True

    with keeper.keeping(late, 60.0, clock.monotonic()) as kept:
        clock.advance(20)
        assert keeper.step() is None
        assert kept.lost


def test_a_lease_counts_from_the_moment_it_was_asked_for(clock: FakeClock) -> None:
    keeper = Keeper(clock)
    asked = clock.monotonic()
    clock.advance(15)
    with keeper.keeping(lambda: True, 60.0, asked) as kept:
        assert keeper.step() == 5.0
        clock.advance(25)
        assert kept.lost


def test_an_unknown_queue_has_the_default_settings(store: FlakyStore, clock: FakeClock) -> None:
    assert Policies(store, clock)("nowhere") == Queue("nowhere")


def test_settings_are_at_most_a_second_old(store: FlakyStore, clock: FakeClock) -> None:
    policies = Policies(store, clock)
    assert policies("work").max_attempts == 3
    put_queue(store, Queue("work", max_attempts=7))
    assert policies("work").max_attempts == 3
    clock.advance(1)
    assert policies("work").max_attempts == 7


def test_forgotten_settings_are_read_again_at_once(store: FlakyStore, clock: FakeClock) -> None:
    policies = Policies(store, clock)
    policies("work")
    put_queue(store, Queue("work", max_attempts=7))
    policies.forget()
    assert policies("work").max_attempts == 7


def test_a_lost_race_is_no_warning(
    store: FlakyStore, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Racing(Reclaimer):
        def _reclaim(self, lapses: object, now: Moment) -> int:
            store.touch([Touch("a", 1, 60.0)], now)
            return super()._reclaim(lapses, now)  # type: ignore[arg-type]

    caplog.set_level(logging.INFO, "oncue.engine")
    add(store, "a")
    claim(store)
    clock.advance(61)
    Racing(Node.of(store, clock)).step()
    assert state(store, "a") is State.EXECUTING
    assert [record.levelname for record in caplog.records] == ["INFO"]
