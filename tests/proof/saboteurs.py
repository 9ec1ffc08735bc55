"""Wrong stores, each in one way. Arguments that a saboteur does not look at are passed on as they
come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oncue.core.changes import ChangeVerb, JobChange
from oncue.core.errors import StoreUnavailable
from oncue.core.fencing import Refused, Settlement
from oncue.core.job import Claimed, Delivery, Lapse, NewJob
from oncue.core.lease import Touch
from oncue.core.lifecycle import State, Verb
from oncue.core.moment import Moment
from oncue.core.retry import Verdict
from oncue.ports.claims import ClaimFilter, ClaimPage, RangeClaim, Settled
from oncue.ports.jobs import Changed
from oncue.stores.memory import MemoryStore

Verdicts = Sequence[tuple[Lapse, Verdict]]


# Creation and cancelling


class Forgetting(MemoryStore):
    """Acknowledges jobs that it does not keep."""

    def insert(self, jobs: Sequence[NewJob], now: Moment) -> Any:
        return super().insert([job for job in jobs if not job.id.endswith("3")], now)


class Inventing(MemoryStore):
    """Keeps a job that nobody asked for."""

    def insert(self, jobs: Sequence[NewJob], now: Moment) -> Any:
        return super().insert([*jobs, jobs[0]._replace(id=f"{jobs[0].id} again")], now)


class NotCancelling(MemoryStore):
    """Acknowledges a cancel and goes on."""

    def change(self, job_ids: Sequence[str], change: JobChange, now: Moment) -> Changed:
        changed = super().change(job_ids, change, now)
        return changed._replace(refused={}) if change.verb is ChangeVerb.CANCEL else changed


class ExpiringSilently(MemoryStore):
    """Cancels what has expired and records nothing."""

    def _expire(self, record: Any, now: Moment) -> None:
        super()._expire(record, now)
        record.diagnostics.clear()


# Claiming


class ClaimingEarly(MemoryStore):
    """Hands out jobs before they are due."""

    ahead_ms = 1000

    def claim(self, queues: Any, takers: Any, now: Moment, **rest: Any) -> list[list[Claimed]]:
        return super().claim(queues, takers, now + self.ahead_ms, **rest)


class ClaimingAMillisecondEarly(ClaimingEarly):
    ahead_ms = 1


class RangingEarly(MemoryStore):
    """Hands out ranges before their jobs are due."""

    def claim_range(self, *args: Any, **rest: Any) -> RangeClaim:
        return super().claim_range(*args, **{**rest, "due_until": args[3] + 500})


class ClaimingTwice(MemoryStore):
    """Hands out a job that it has handed out just before, once more."""

    def __init__(self, clock: Any) -> None:
        super().__init__(clock)
        self.last: list[Claimed] = []

    def claim(self, *args: Any, **rest: Any) -> list[list[Claimed]]:
        [share, *others] = super().claim(*args, **rest)
        before, self.last = self.last, share
        wanted = {queue.name for queue in args[0]}
        return [[*share, *(claim for claim in before[:1] if claim.queue in wanted)], *others]


class FallingAttempts(MemoryStore):
    """Counts attempts downwards."""

    def claim(self, *args: Any, **rest: Any) -> list[list[Claimed]]:
        shares = super().claim(*args, **rest)
        return [[one._replace(attempt=max(1, 3 - one.attempt)) for one in s] for s in shares]


class SameEpoch(MemoryStore):
    """A job that was reclaimed gets the epoch of the lost claim again."""

    def claim(self, *args: Any, **rest: Any) -> list[list[Claimed]]:
        shares = super().claim(*args, **rest)
        again = [self._records[one.id] for share in shares for one in share if one.epoch > 1]
        for record in again:
            record.epoch = 1
        return [[one._replace(epoch=self._records[one.id].epoch) for one in s] for s in shares]


# Signs of life


class BelievingTouches(MemoryStore):
    """Accepts a sign of life of any epoch."""

    def touch(self, touches: Sequence[Touch], now: Moment) -> Any:
        records = [self._records.get(touch.id) for touch in touches]
        current = [
            touch if record is None else touch._replace(epoch=record.epoch)
            for touch, record in zip(touches, records, strict=True)
        ]
        return super().touch(current, now)


class NotRenewing(MemoryStore):
    """Acknowledges a heartbeat and leaves the lease as it is."""

    def touch(self, touches: Sequence[Touch], now: Moment) -> Any:
        return super().touch(
            [one._replace(lease_seconds=None, renew=False) for one in touches], now
        )


# Settling


class BelievingSettlements(MemoryStore):
    """Accepts a settlement of any epoch."""

    def settle(self, settlements: Sequence[Settlement], now: Moment) -> Settled:
        return super().settle(settlements, now)._replace(refused={})


class DroppingCompletions(MemoryStore):
    """Acknowledges the first completion of a job and forgets it."""

    def __init__(self, clock: Any) -> None:
        super().__init__(clock)
        self.dropped: set[str] = set()

    def settle(self, settlements: Sequence[Settlement], now: Moment) -> Settled:
        kept = [one for one in settlements if one.id in self.dropped or one.verb != Verb.COMPLETE]
        self.dropped |= {one.id for one in settlements}
        return super().settle(kept, now)


class FailingCompletions(MemoryStore):
    """Acknowledges a completion and records a failure."""

    def settle(self, settlements: Sequence[Settlement], now: Moment) -> Settled:
        turned = [
            one._replace(verb=Verb.FAIL, code="failure") if one.verb is Verb.COMPLETE else one
            for one in settlements
        ]
        return super().settle(turned, now)


class RefusingCompletions(MemoryStore):
    """Cannot record the first completion of a job and says so. Nothing is lost: what was done is
    reclaimed and done again."""

    def __init__(self, clock: Any) -> None:
        super().__init__(clock)
        self.refused: set[str] = set()

    def settle(self, settlements: Sequence[Settlement], now: Moment) -> Settled:
        new = {one.id for one in settlements if one.verb is Verb.COMPLETE} - self.refused
        self.refused |= new
        if new:
            raise StoreUnavailable("settle")
        return super().settle(settlements, now)


class LosingRetries(MemoryStore):
    """A job that is to be tried again fails."""

    def settle(self, settlements: Sequence[Settlement], now: Moment) -> Settled:
        turned = [one if one.failure is None else one._replace(failure=None) for one in settlements]
        return super().settle(turned, now)


class CountingReleases(MemoryStore):
    """A claim that was given back counts as an attempt."""

    def settle(self, settlements: Sequence[Settlement], now: Moment) -> Settled:
        answer = super().settle(settlements, now)
        for position, one in enumerate(settlements):
            if one.verb is Verb.RELEASE and position not in answer.refused:
                self._records[one.id].attempt += 1
        return answer


# Ranges


class SettlingAll(MemoryStore):
    """Takes a whole range for delivered, whatever it is told."""

    def settle_range(
        self, claim: RangeClaim, delivered: Any, refused: Any, now: Moment, *, left: int = 0
    ) -> bool:
        return super().settle_range(claim, [job.id for job in claim.jobs], {}, now, left=left)


class SettlingArrivals(MemoryStore):
    """Takes for delivered what came into the range behind the dispatcher's back."""

    def settle_range(self, claim: RangeClaim, delivered: Any, *rest: Any, left: int = 0) -> bool:
        held = self._ranges.get((claim.queue, claim.shard))
        came = set(held.records) - {job.id for job in claim.jobs} if held else set()
        extended = [*claim.jobs, *(self._delivery(job_id) for job_id in sorted(came))]
        more = claim._replace(jobs=extended)
        return super().settle_range(more, [*delivered, *sorted(came)], *rest, left=left)

    def _delivery(self, job_id: str) -> Delivery:
        record = self._records[job_id]
        return Delivery(job_id, record.due_at, b"", record.attempt + 1, None, record.queue)


class ForgettingRanges(MemoryStore):
    """Acknowledges that a range was settled and settles nothing of it."""

    def settle_range(self, claim: RangeClaim, delivered: Any, *rest: Any, left: int = 0) -> bool:
        return super().settle_range(claim, delivered[1:], *rest, left=left)


class Unfenced(MemoryStore):
    """Accepts what a dispatcher says of a range, whoever holds it now."""

    def settle_range(self, claim: RangeClaim, *rest: Any, left: int = 0) -> bool:
        super().settle_range(claim, *rest, left=left)
        return True


class CountingRefusals(MemoryStore):
    """A job that the sink refused for now has used an attempt."""

    def settle_range(
        self, claim: RangeClaim, delivered: Any, refused: Any, *rest: Any, left: int = 0
    ) -> bool:
        settled = super().settle_range(claim, delivered, refused, *rest, left=left)
        put_off = [job_id for job_id, why in refused.items() if not why.permanent]
        for job_id in put_off if settled else ():
            self._records[job_id].attempt += 1
        return settled


# Reclaiming


def _instead(verdicts: Verdicts, code: str = "timeout_dispatched") -> Verdicts:
    """The same, and nothing is tried again."""
    return [(lapse, verdict._replace(verb=Verb.GIVE_UP, code=code)) for lapse, verdict in verdicts]


class FailingReclaimed(MemoryStore):
    """Reclaimed work fails, whatever attempts are left."""

    def reclaim(self, verdicts: Verdicts, now: Moment) -> Mapping[int, Refused]:
        return super().reclaim(_instead(verdicts), now)


class DeletingReclaimed(MemoryStore):
    """Reclaimed work is gone."""

    def reclaim(self, verdicts: Verdicts, now: Moment) -> Mapping[int, Refused]:
        refused = super().reclaim(_instead(verdicts), now)
        for position, (lapse, _) in enumerate(verdicts):
            if position not in refused:
                self._forget(self._records[lapse.id])
        return refused


class SucceedingReclaimed(MemoryStore):
    """Reclaimed work counts as done."""

    def reclaim(self, verdicts: Verdicts, now: Moment) -> Mapping[int, Refused]:
        refused = super().reclaim(_instead(verdicts), now)
        for position, (lapse, _) in enumerate(verdicts):
            if position not in refused:
                self._records[lapse.id].state = State.SUCCEEDED
        return refused


class FailingSilently(MemoryStore):
    """What is given up fails without a record."""

    def settle(self, settlements: Sequence[Settlement], now: Moment) -> Settled:
        answer = super().settle(settlements, now)
        for one in settlements:
            record = self._records.get(one.id)
            if record is not None and record.state is State.FAILED:
                record.diagnostics.clear()
        return answer


class PoisoningUnstarted(MemoryStore):
    """Takes a job for poison though no worker ever started it."""

    def reclaim(self, verdicts: Verdicts, now: Moment) -> Mapping[int, Refused]:
        bad = [
            one if one[0].state is State.EXECUTING else _instead([one], "poison")[0]
            for one in verdicts
        ]
        return super().reclaim(bad, now)


class ReclaimingLate(MemoryStore):
    """Finds a lost claim a minute after its lease has ended."""

    def live_claims(self, wanted: ClaimFilter, *rest: Any) -> ClaimPage:
        return super().live_claims(_lapsed(wanted, -60_000), *rest)


class ReclaimingNever(MemoryStore):
    """Finds no lost claim."""

    def live_claims(self, wanted: ClaimFilter, *rest: Any) -> ClaimPage:
        return super().live_claims(wanted, *rest) if wanted.lapsed_by is None else ClaimPage([])


class ReclaimingEarly(MemoryStore):
    """Takes a claim away five seconds before its lease has ended."""

    def live_claims(self, wanted: ClaimFilter, *rest: Any) -> ClaimPage:
        return super().live_claims(_lapsed(wanted, 5_000), *rest)


class WaitingForTheClock(MemoryStore):
    """When the clock was set back, no lease ends until the clock is where it was."""

    latest: Moment = 0

    def live_claims(self, wanted: ClaimFilter, *rest: Any) -> ClaimPage:
        until = wanted.lapsed_by
        if until is not None:
            self.latest = max(self.latest, until)
        return super().live_claims(wanted, *rest) if until in (None, self.latest) else ClaimPage([])


def _lapsed(wanted: ClaimFilter, later_ms: int) -> ClaimFilter:
    if wanted.lapsed_by is None:
        return wanted
    return wanted._replace(lapsed_by=wanted.lapsed_by + later_ms)
