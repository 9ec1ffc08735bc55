"""A holder stands still at any of its requests, for longer than its lease; another node takes over,
and the job is revived or changed. What the first one writes when it goes on changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from oncue.core.lifecycle import State
from oncue.core.missed import Look, Missed
from oncue.core.queue import Queue
from oncue.ports.claims import RangeClaim
from tests.contract.changing import CANCEL, REVIVE, Amendment, amend
from tests.contract.desk import LEASE, lapse_of
from tests.stores.dynamodb.rig import Rig
from tests.stores.dynamodb.steps import every_point

QUEUE = Queue("d", sink="log:")
NEW = b'"new"'
AHEAD_MS = 110_000

IDS = pytest.mark.parametrize("name", [None, "chosen"], ids=["plain", "recorded"])
Story = Callable[[Rig, str], bool]
"""What happens while the holder stands still; whether the job waits again then."""


@pytest.fixture
def rig(client: Any) -> Iterator[Rig]:
    rig = Rig(client, queues=[QUEUE])
    yield rig
    rig.close()


def take_over(rig: Rig) -> RangeClaim:
    rig.clock.advance(LEASE + 1)
    desk = rig.calm.desk
    ahead = desk.now + AHEAD_MS
    return desk.store.claim_range(QUEUE, "dan", 100, desk.now, lease_seconds=LEASE, due_until=ahead)


def refused_and_revived(rig: Rig, job_id: str) -> bool:
    desk = rig.calm.desk
    claim = take_over(rig)
    if claim.fence:
        assert desk.settle_range(claim, refused={job_id: "too large"})
    return not desk.store.change([job_id], REVIVE, desk.now).refused


def let_go_and_changed(rig: Rig, job_id: str) -> bool:
    desk = rig.calm.desk
    claim = take_over(rig)
    if claim.fence:
        assert desk.settle_range(claim, delivered=[])
    return not desk.store.change([job_id], amend(Amendment(payload=NEW)), desk.now).refused


def let_go_cancelled_and_revived(rig: Rig, job_id: str) -> bool:
    desk = rig.calm.desk
    claim = take_over(rig)
    if claim.fence:
        assert desk.settle_range(claim, delivered=[])
    desk.store.change([job_id], CANCEL, desk.now)
    return not desk.store.change([job_id], REVIVE, desk.now).refused


STORIES: list[Story] = [refused_and_revived, let_go_and_changed, let_go_cancelled_and_revived]


@IDS
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_dispatcher_that_settles_late_ends_nothing_that_waits_again(
    rig: Rig, story: Story, name: str | None
) -> None:
    """It stands still before each request of its settling: before the records, before the removal
    of waiting items, before the lease."""
    node, told, job_id = rig.node(), list[bool](), ""

    def happen() -> None:
        told.append(story(rig, job_id))

    for number, point in enumerate(every_point(happen)):
        told.clear()
        job_id = rig.calm.desk.add(name and f"{name}-{number}", queue="d", due_in=AHEAD_MS / 1000)
        ahead = rig.clock.now() + AHEAD_MS
        claim = node.store.claim_range(
            QUEUE, "dora", 100, rig.clock.now(), lease_seconds=LEASE, due_until=ahead
        )
        assert [job.id for job in claim.jobs] == [job_id]
        node.client.before = point
        node.desk.settle_range(claim)
        waits = told == [True]
        assert rig.calm.desk.state(job_id) == (State.SCHEDULED if waits else State.SUCCEEDED)
        if waits:
            payloads = {job.id: job.payload for job in take_over(rig).jobs}
            assert payloads.get(job_id) == (NEW if story is let_go_and_changed else b"{}")
            rig.clock.advance(LEASE + 1)
            rig.calm.desk.settle_range(take_over(rig))
    assert rig.line("d") == []


def test_a_dispatcher_that_settles_late_removes_nothing_of_a_job_that_was_moved(rig: Rig) -> None:
    """Its queue keeps nothing, so that it only removes what it has delivered; and the payload is so
    large that it stands apart."""
    fleeting, large = Queue("f", sink="log:", retention_seconds=0), b'"' + b"x" * 5_000 + b'"'
    node, desk, job_id, told = rig.node(), rig.calm.desk, "", list[bool]()
    desk.set(fleeting)

    def be_moved() -> None:
        rig.clock.advance(LEASE + 1)
        claim = desk.claim_range(fleeting, "dan")
        if claim.fence:
            assert desk.settle_range(claim, delivered=[])
        later = amend(Amendment(due_at=desk.now + 1000))
        told.append(not desk.store.change([job_id], later, desk.now).refused)

    for point in every_point(be_moved):
        told.clear()
        job_id = desk.add(queue="f", payload=large)
        claim = node.desk.claim_range(fleeting, "dora")
        assert [job.id for job in claim.jobs] == [job_id]
        node.client.before = point
        node.desk.settle_range(claim)
        rig.clock.advance(LEASE + 1)
        last = desk.claim_range(fleeting, "dan")
        assert [job.payload for job in last.jobs] == ([large] if told == [True] else [])
        assert not last.fence or desk.settle_range(last)


@IDS
def test_a_dispatcher_that_claims_late_knows_it_before_it_sends(rig: Rig, name: str | None) -> None:
    node, claims, desk = rig.node(), [], rig.calm.desk

    def be_taken_over() -> None:
        claims.append(take_over(rig))

    for number, point in enumerate(every_point(be_taken_over)):
        claims.clear()
        job_id = desk.add(name and f"{name}-{number}", queue="d")
        node.client.before = point
        late = node.desk.claim_range(QUEUE, "dora")
        taken = [job.id for claim in claims for job in claim.jobs]
        if taken and late.fence:  # now this dispatcher checks its lease, and sends
            assert not node.store.extend_range(late, node.desk.now + 1)
            assert not node.desk.settle_range(late)
        assert taken in ([job_id], []) if late.fence else [job_id]
        rig.clock.advance(LEASE + 1)
        last = claims[0] if taken else desk.claim_range(QUEUE, "dan")
        assert desk.settle_range(last)
        assert desk.state(job_id) is State.SUCCEEDED
    assert rig.line("d") == []


@IDS
def test_a_worker_that_completes_late_ends_nothing_that_was_revived(
    rig: Rig, name: str | None
) -> None:
    node, desk, told = rig.node(), rig.calm.desk, list[object]()
    pulled = Queue("p")

    def lose_it() -> None:
        rig.clock.advance(LEASE + 1)
        refused = desk.reclaim(lapse_of(desk.job(job_id))._replace(epoch=1))
        if refused is None:
            assert desk.fail(desk.retake(job_id, queue=pulled)) is None
            assert desk.revive(job_id).refused is None
        told.append(refused)

    for number, point in enumerate(every_point(lose_it)):
        told.clear()
        job_id = desk.add(name and f"{name}-{number}", queue="p")
        claimed = node.desk.retake(job_id, queue=pulled)
        node.client.before = point
        refused = node.desk.complete(claimed)
        lost = told == [None]
        assert (refused is not None) == lost
        assert desk.state(job_id) == (State.SCHEDULED if lost else State.SUCCEEDED)
        if lost:
            assert desk.complete(desk.retake(job_id, queue=pulled)) is None
    assert rig.line("p") == []


def test_a_reclaimer_that_stands_still_shortens_no_lease_that_was_renewed_meanwhile(
    rig: Rig,
) -> None:
    """A lease that was given after its last look at the clock is not one from before the clock was
    set back."""
    node, desk = rig.node(), rig.calm.desk
    desk.add(queue="d")
    claimed = desk.take(queue=Queue("p"))
    claim, length_ms = desk.claim_range(QUEUE, "dora"), round(1000 * LEASE)

    def be_heard_later() -> None:
        rig.clock.advance(LEASE - 1)
        assert desk.store.extend_range(claim, desk.now + length_ms)
        desk.touch(claimed, lease_seconds=LEASE)

    def judge(last: Look | None) -> tuple[Look, Missed]:
        return Look("here", round(rig.clock.monotonic() * 1000), rig.clock.now()), Missed()

    for point in every_point(be_heard_later):
        be_heard_later()
        node.client.before = point
        assert node.store.judge_leases(judge) is not None
        node.client.before = None
        lease = rig.calm.store._lease_of(claim)
        assert lease is not None
        assert lease.until == desk.now + length_ms
        live = desk.claim_on(claimed.id)
        assert live is not None
        assert live.lease_until == desk.now + length_ms
