"""The store, as far as claims go: workers' claims, dispatchers' range claims, reclaiming.

**Epochs.** A worker's claim raises the job's epoch, and so does a reclaim. Every write of a worker
carries the epoch it was given and is applied only if that is still the job's epoch and the job is
dispatched or executing. Repeating the very write that settled a claim is applied silently (it
changes nothing). Any other write is refused; the refusal is recorded as one diagnostic per epoch
and kind of write, code `fenced`. A new job begins with the epoch of `NewJob`: if its id may have
belonged to an earlier job, that is greater than any epoch of that one (docs/adr/0022-epochs.md).

**Order.** Within a queue: reclaimed work first, then priority descending, due time, id.

**Limits.** A queue's `concurrency` bounds how many of its jobs are dispatched or executing, those
that are in flight under a range claim included; its `rate_per_second` bounds how many are handed
over, by the bucket of `core/rate.py`, and what comes back gives nothing back to it. Both hold for
`claim` and `claim_range` together, exactly, over all processes and shards, by the settings in the
store and not by those of the `Queue` that was passed.

**Shards.** A networked store spreads the waiting jobs of a queue over shards (`core/shard.py`), so
that several dispatchers can deliver them at the same time. Order holds within a shard. When their
number changes, nothing is taken away: `claim_range` takes nothing more of the queue until every
range of it was let go or taken over, and then goes by the new number; or jobs that wait stay in
their shards, and those that come later go by the new number.

**Put off.** A job that its sink refused for now waits until a moment of its own, `not_before`
(`core/putoff.py`). Until then it is scheduled like any other and can be cancelled, changed and
listed, but it is not handed over and no range claim covers it. When the moment has come, `claim`
and `claim_range` give it its place in the order back, unless the job that the call would hand over
next has been due for longer and has no worse rank. A new due time, another queue or a revival ends
it as well. `refusals` counts on until the job is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from oncue.core.cursor import Cursor, Page
from oncue.core.fencing import Refused, Settlement
from oncue.core.job import Claimed, Delivery, Lapse, Operation
from oncue.core.lease import Touch, Touched
from oncue.core.lifecycle import LIVE, State
from oncue.core.missed import Judge, Look, Missed
from oncue.core.moment import Moment
from oncue.core.operations import DEFAULT_LIMITS, OperationLimits
from oncue.core.queue import Queue
from oncue.core.retry import Verdict
from oncue.core.sharing import Taker
from oncue.ports.sink import Refusal

if TYPE_CHECKING:
    from oncue.core.record import Record


class Settled(NamedTuple):
    """What became of settlements."""

    refused: Mapping[int, Refused]
    """By position: those that were not applied."""
    states: Mapping[int, State]
    """By position, of the others whose caller cannot know it (`Settlement.tells_state`): the state
    in which the end of the claim left the job. A repetition gets the same, even if the job has
    changed since."""


class ClaimFilter(NamedTuple):
    """Which live claims are read. None means any."""

    job_id: str | None = None
    lapsed_by: Moment | None = None
    """Those whose lease or timeout has ended by then."""
    heard_outside: tuple[Moment, Moment] | None = None
    """Those whose last update is before the first moment or after the second."""

    def fits(self, record: Record) -> bool:
        """Whether this job has a live claim that is to be read."""
        heard = self.heard_outside
        return (
            record.state in LIVE
            and self.job_id in (None, record.id)
            and (self.lapsed_by is None or record.has_lapsed(self.lapsed_by))
            and (heard is None or not heard[0] <= record.updated_at <= heard[1])
        )


ClaimPage = Page[Lapse]


class RangeClaim(NamedTuple):
    """What a dispatcher got: jobs of one shard of a queue, covered by one fenced record."""

    queue: str
    shard: int = 0
    fence: int = 0
    """0: nothing was taken."""
    jobs: Sequence[Delivery] = ()
    claimed_at: Moment = 0
    busy_until: Moment | None = None
    """When other dispatchers hold what is due: until when at most."""


class Leases(NamedTuple):
    """What a reclaimer must know before it judges leases."""

    running: bool
    """Whether a claim has a lease or a timeout, or a range is open."""
    last_look: Look | None
    """The last one that `judge_leases` recorded."""
    next_lapse: Moment | None
    """When the next claim will lapse or the next waiting job expire, if nothing is heard; or an
    earlier moment, where the store can only tell when to look again."""


class ClaimStore(Protocol):
    def claim(
        self,
        queues: Sequence[Queue],
        takers: Sequence[Taker],
        now: Moment,
        *,
        nonce: str,
        again: bool = False,
    ) -> list[list[Claimed]]:
        """Take due jobs, going through the queues in the order given, and share them out as
        `core/sharing.py: share_out` says; one answer for each taker. The limits of a queue hold
        for all of them together.

        scheduled → dispatched; epoch + 1, attempt + 1; the claim remembers whether its taker holds
        just this one job (`Lapse.alone`). Nothing is taken early, nor from a paused queue, nor
        beyond a queue's limits, nor if an open range claim covers it. A range whose lease has ended
        is closed first, by raising its fence.

        Of a queue from which something may be taken, due jobs that have expired are cancelled
        instead, and put-off jobs whose moment has come are in line again. One that is paused, or at
        its limits, or in which nothing waits, is left as it is.

        `nonce` is new for each call. `again` says that this very call may have been made before and
        its answer got lost: the answer is then what that call took, as far as the claims still
        hold, and their leases begin anew. If there are no such claims, jobs are taken as in any
        other call. Such a call may read all live claims.
        """

    def touch(self, touches: Sequence[Touch], now: Moment) -> list[Touched | Refused]:
        """Signs of life, one answer each: dispatched → executing, message and percent stored."""

    def interruptions(self, claims: Sequence[tuple[str, int]]) -> Mapping[int, Refused]:
        """Which of these (id, epoch) are no longer to be worked on, by position: `cancel
        requested`, or how the claim ended. Only reads, and leaves no trace: a process asks it every
        second for all that its workers run, so one look must answer for all of them."""

    def put_operation(
        self,
        job_id: str,
        epoch: int,
        operation: Operation,
        now: Moment,
        limits: OperationLimits = DEFAULT_LIMITS,
    ) -> Operation | Refused:
        """Store a report on an operation, as `core/operations.py` decides. Once it has succeeded,
        the same report is answered with it, and another is refused, `different result`. The limits
        are exact whoever writes at the same time: what adds to a job beyond them is refused, `too
        many operations` or `results too large`."""

    def settle(self, settlements: Sequence[Settlement], now: Moment) -> Settled:
        """Settle claims: COMPLETE → succeeded, FAIL → failed, DROP → cancelled, RETRY → scheduled
        at `due_at`, RELEASE → scheduled as before, the attempt given back. What becomes of a
        failure that a worker reports is decided by `core/fencing.py: settle`, from the job and the
        policy that its queue has in the store. Every end but COMPLETE and RELEASE leaves a
        diagnostic. A job whose queue keeps no history is gone when it ends.

        HAND_OVER ends nothing: a sink took the job for a worker elsewhere. The dispatcher's lease
        ends, the timeout stays, and the next touch with a lease begins one; one that the worker
        asked for by then is kept (see `core/lease.py`). `refusals` is 0 again. Refused without a
        trace, and never a repetition.

        The same write again is answered as the first time and changes nothing, also when the job
        went with it, from any process and for at least the lease of its queue. What makes it the
        same is in `core/fencing.py`. So a call that may have been applied can be repeated."""

    def live_claims(self, wanted: ClaimFilter, after: Cursor | None, limit: int) -> ClaimPage:
        """Claims on jobs that are dispatched or executing, range claims left out; from `after` on,
        which is the `next` of the page before. With `lapsed_by` in the order of `Lapse.lapses_at`,
        then id, and claims without lease and timeout are not listed; else in an order of the
        store's own. Waiting and finished jobs cost nothing."""

    def live_count(self) -> int | None:
        """How many claims are live; None: the store cannot tell without reading them all."""

    def reclaim(
        self, verdicts: Sequence[tuple[Lapse, Verdict]], now: Moment
    ) -> Mapping[int, Refused]:
        """Apply verdicts to lapses that are still as they were seen (epoch, state, last update).
        Epoch + 1. RECLAIM → scheduled, due now, ahead of waiting work, strikes + 1 if the verdict
        says so, `attempt_base` + 1 if it uses no attempt; GIVE_UP → failed; DROP → cancelled. One
        diagnostic each. A job whose queue keeps no history is gone when it ends."""

    def expire(self, now: Moment, limit: int) -> int:
        """Cancel scheduled jobs that have expired (and which no open range claim covers),
        each with a diagnostic `expired`. How many."""

    def leases(self) -> Leases:
        """Whether any lease is running, when leases were last judged, and when the next ends; or an
        earlier moment, where the store can only tell when to look again. Reads only, and cheap."""

    def has_leases_astray(self, now: Moment) -> bool:
        """Whether a running lease ends later than its own length from now (`core/missed.py`): a
        call that had read the clock before it was set back wrote it after leases were judged. Reads
        all live claims, and only those."""

    def judge_leases(self, judge: Judge) -> Missed | None:
        """Call `judge` with the last recorded look, inside the transaction that applies its answer:
        record its look; with a `Missed`, move all running leases and timeouts as `core/missed.py`
        says, begin again with buckets from before the clock was set back (`core/rate.py`), and let
        no job be put off longer than the policy of its queue ever does (`core/putoff.py`). By how
        much leases were moved; None: not at all. The record may be lost with the power."""

    def next_due(self, queues: Sequence[str]) -> Moment | None:
        """When something can next be taken from these queues, paused ones left out: the earliest
        due time outside open ranges, or until when a job is put off, or the end of an open range's
        lease; or an earlier moment, where the store can only tell when to look again. Never before
        the queue's rate allows one more. A queue at its concurrency has no next due time but the
        end of an open range's lease: the end of a claim is told to listeners, as (queue, 0)."""

    def claim_range(
        self,
        queue: Queue,
        dispatcher: str,
        limit: int,
        now: Moment,
        *,
        lease_seconds: float,
        in_flight: Sequence[RangeClaim] = (),
        due_until: Moment | None = None,
    ) -> RangeClaim:
        """Take the first `limit` due jobs of one shard of the queue for delivery, by one record, no
        more than the limits of the queue leave.

        A shard has one record: holder, fence, how far, until when. The store chooses the shard
        whose next job is the first in hand-over order, of those that are free, those whose
        lease has ended, and those that this dispatcher holds. `in_flight` are the claims of this
        dispatcher that are not settled, and those of a shard that it has not let go. A shard of
        such a claim goes on under the same fence: its next jobs are those that are not in flight.
        Any other shard is taken by raising its fence; also one that a dispatcher of this name
        holds, which was started again, or never received the answer to its claim.

        `due_until` (default `now`) takes work ahead of time for sinks that can delay it. What has
        expired or was put off is treated as by `claim`; a queue that others hold is left as it is.
        A job that arrived in a range of this dispatcher and has expired is not handed over. Whether
        it is cancelled at once or when the range ends is up to the store.

        While a record stands, the scheduled jobs of the shard up to the last one ever returned
        under its fence, in hand-over order, count as dispatched, even one that arrives there
        meanwhile. Their attempt is the stored one + 1, and is stored when settled.

        If others change jobs of a shard just then, or have not yet committed that, it may be left
        out: nothing is answered, without `busy_until`, and `next_due` says that something is due.
        """

    def extend_range(self, claim: RangeClaim, lease_until: Moment) -> bool:
        """Hold a shard longer, never shorter. False: it was taken over or let go, stop."""

    def settle_range(
        self,
        claim: RangeClaim,
        delivered: Sequence[str],
        refused: Mapping[str, Refusal],
        now: Moment,
        *,
        left: int = 0,
    ) -> bool:
        """Settle jobs of a claim. Delivered ids → succeeded, ids refused for good → failed with
        that error and a diagnostic, attempt + 1 for both, gone at once if their queue keeps no
        history. Ids refused for now are put off by the policy of their queue, with that error; no
        attempt is used. `left` is how many jobs stay in flight under this fence. With none, the
        shard is let go: every other job of the range is as if it had never been taken.

        Repeating it changes nothing and is answered as before. False: taken over; jobs not settled
        by then belong to the new holder.
        """
