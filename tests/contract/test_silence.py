"""Claims found by how long they were silent, whatever their lease says."""

from __future__ import annotations

from functools import partial

import pytest

from oncue.core.fencing import Refused, Settlement
from oncue.core.job import Diagnostic, Lapse
from oncue.core.lifecycle import State, Verb
from oncue.core.moment import from_datetime, to_datetime
from oncue.core.queue import Queue
from oncue.core.retry import after_silence
from oncue.ports.claims import ClaimFilter

from .desk import LEASE, Desk, ids
from .promises import every


def silent(desk: Desk, before: int, limit: int = 100) -> list[Lapse]:
    """All of them, page by page."""
    wanted = ClaimFilter(heard_outside=(before, desk.now))
    return every(partial(desk.store.live_claims, wanted), limit)


def test_a_claim_is_silent_when_its_last_update_is_strictly_older(desk: Desk) -> None:
    claimed = desk.take()
    heard_at = claimed.claimed_at
    desk.clock.advance(10)
    assert silent(desk, heard_at) == []
    [lapse] = silent(desk, heard_at + 1)
    assert lapse == desk.claim_on(claimed.id)
    assert (lapse.id, lapse.epoch, lapse.state) == (claimed.id, 1, State.DISPATCHED)
    assert (lapse.updated_at, lapse.lease_until) == (heard_at, claimed.lease_until)


def test_a_heartbeat_ends_the_silence(desk: Desk) -> None:
    claimed = desk.take()
    desk.clock.advance(10)
    desk.touch(claimed, lease_seconds=LEASE)
    assert silent(desk, desk.now) == []


def test_a_claim_without_lease_and_timeout_is_found_too(desk: Desk) -> None:
    claimed = desk.take()
    desk.hand_over(claimed)
    desk.clock.advance(1)
    assert desk.lapses(10) == []
    assert ids(silent(desk, desk.now)) == [claimed.id]


def test_waiting_and_finished_jobs_are_never_silent(desk: Desk) -> None:
    desk.complete(desk.take())
    desk.release(desk.take())
    desk.clock.advance(1000)
    assert silent(desk, desk.now) == []
    assert desk.store.live_count() in (0, None)


def test_an_update_from_the_future_is_shown(desk: Desk) -> None:
    claimed = desk.take()
    desk.clock.set(claimed.claimed_at - 5_000)
    [lapse] = silent(desk, desk.now)
    assert (lapse.id, lapse.updated_at) == (claimed.id, desk.now + 5_000)


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_pages_show_each_claim_once_and_the_fresh_ones_hide_none(desk: Desk, limit: int) -> None:
    old = [desk.take(f"old-{n}", due_in=-n).id for n in range(7)]
    desk.clock.advance(10)
    before = desk.now
    for n in range(9):
        desk.take(f"fresh-{n}", due_in=-n)
    found = [lapse.id for lapse in silent(desk, before, limit)]
    assert sorted(found) == sorted(old)
    assert desk.store.live_count() in (16, None)


def test_paging_goes_on_while_what_was_shown_is_reclaimed(desk: Desk) -> None:
    claims = [desk.take(due_in=-n).id for n in range(6)]
    desk.clock.advance(10)
    wanted = ClaimFilter(heard_outside=(desk.now, desk.now))

    def reclaim(found: list[Lapse]) -> None:
        assert [desk.reclaim(lapse) for lapse in found] == [None] * len(found)

    seen = every(partial(desk.store.live_claims, wanted), 1, reclaim)
    assert sorted(ids(seen)) == sorted(claims)
    assert desk.store.live_count() in (0, None)


def test_the_claim_on_a_job_is_there_while_somebody_has_it(desk: Desk) -> None:
    job_id = desk.add()
    assert desk.claim_on(job_id) is None
    claimed = desk.retake(job_id)
    desk.touch(claimed)
    lapse = desk.claim_on(job_id)
    assert lapse is not None
    assert (lapse.state, lapse.worker) == (State.EXECUTING, "ada")
    desk.complete(claimed)
    assert desk.claim_on(job_id) is None
    assert desk.claim_on("nobody") is None


def test_a_settlement_may_insist_on_the_last_update_it_saw(desk: Desk) -> None:
    claimed = desk.take()
    seen_at = desk.now
    desk.clock.advance(1)
    desk.touch(claimed)
    late = Settlement(claimed.id, claimed.epoch, Verb.COMPLETE, updated_at=seen_at)
    refused, _ = desk.store.settle([late], desk.now)
    assert refused == {0: Refused("moved on", State.EXECUTING)}
    assert desk.diagnostics(claimed.id) == ()
    assert desk.store.settle([late._replace(updated_at=desk.now)], desk.now).refused == {}
    assert desk.state(claimed.id) is State.SUCCEEDED


def test_a_note_is_a_diagnostic_and_changes_nothing_else(desk: Desk) -> None:
    claimed = desk.take()
    before = desk.job(claimed.id)
    told = Diagnostic(to_datetime(desk.now - 7), "reported", "It looked odd.", 1, 1, {"n": 3})
    desk.store.note(claimed.id, [told, told])
    assert desk.diagnostics(claimed.id) == (told, told)
    assert desk.job(claimed.id) == before
    desk.store.note("nobody", [told])
    assert from_datetime(told.at) == desk.now - 7


def test_the_diagnostic_of_a_reclaim_tells_the_silence_and_the_threshold(desk: Desk) -> None:
    claimed = desk.take()
    desk.clock.advance(90)
    [lapse] = silent(desk, desk.now)

    verdict = after_silence(lapse, Queue("q"), desk.now, 30_000)
    assert desk.store.reclaim([(lapse, verdict)], desk.now) == {}
    [diagnostic] = desk.diagnostics(claimed.id)
    assert diagnostic.code == "timeout_dispatched"
    assert diagnostic.facts["age_seconds"] == 90.0
    assert diagnostic.facts["threshold_seconds"] == 30.0
    assert diagnostic.facts["worker"] == "ada"
    assert diagnostic.facts["decision"] == "reclaim"
    assert diagnostic.facts["updated_at"].endswith("Z")
