"""Workers' claims in DynamoDB: taking jobs, and the signs of life that follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TypeVar

from oncue.core.fencing import GONE, Refused
from oncue.core.job import Claimed, Operation
from oncue.core.lease import Touch, Touched
from oncue.core.lifecycle import LIVE
from oncue.core.moment import Moment
from oncue.core.operations import DEFAULT_LIMITS, OperationLimits, paged
from oncue.core.queue import Queue
from oncue.core.record import Record
from oncue.core.sharing import Taker, in_order
from oncue.stores.dynamodb.filed import Filed, is_past
from oncue.stores.dynamodb.filing import Saving, Wanted, what_was
from oncue.stores.dynamodb.jobs import MOST_RACES, rounds, too_many_races
from oncue.stores.dynamodb.known import KnownQueue
from oncue.stores.dynamodb.offers import DynamoOffers, Offer

T = TypeVar("T")


class DynamoClaims(DynamoOffers):
    """Implements the workers' side of `oncue.ports.claims.ClaimStore` up to the settlement."""

    def claim(
        self,
        queues: Sequence[Queue],
        takers: Sequence[Taker],
        now: Moment,
        *,
        nonce: str,
        again: bool = False,
    ) -> list[list[Claimed]]:
        if again and any(held := self._claimed_by(nonce, queues, len(takers), now)):
            return held
        taken: list[list[Claimed]] = [[] for _ in takers]
        for _ in range(MOST_RACES):
            short = {at: takers[at] for at in range(len(takers)) if not taken[at]}
            if self._share_out(short, queues, taken, nonce, now):
                break
        self._news.tell()
        return [paged(in_order(claims, queues)) for claims in taken]

    def _share_out(
        self,
        takers: Mapping[int, Taker],
        queues: Sequence[Queue],
        taken: list[list[Claimed]],
        nonce: str,
        now: Moment,
    ) -> bool:
        """Let those who have nothing yet take what is due. False: others were quicker, look
        again."""
        offers = self._offers(queues, sum(taker.limit for taker in takers.values()), now)
        shares = self._shares(takers, offers, now)
        if not self._are_current(offers):
            return False
        savings: dict[str, list[tuple[int, Saving]]] = {}
        for at, share in shares.items():
            for job in share:
                offer = offers[job.record.queue]
                ranges = offer.known.ranges
                checks = self._check_free(job) if ranges else []
                alone = len(share) == 1
                job.record.take(offer.queue, takers[at], now, (nonce, at), alone=alone)
                savings.setdefault(offer.known.name, []).append(
                    (at, Saving(job, checks, is_unrivalled=not ranges))
                )
        complete = True
        for name, some in savings.items():
            done = self._take([one for _, one in some], offers[name].known, now)
            complete = complete and all(done)
            for (at, one), was in zip(some, done, strict=True):
                if was:
                    taken[at].append(one.job.record.as_claimed())
        return complete

    def _are_current(self, offers: Mapping[str, Offer]) -> bool:
        """Whether the queues are as they were taken to be when jobs were chosen. This is the last
        thing that is read: a dispatcher that takes a job of theirs for the first time from now on
        writes it, and then it is no longer as it was chosen."""
        now_known = self._fresh(offers)
        return all(now_known[name].ver == offer.known.ver for name, offer in offers.items())

    def _take(self, savings: Sequence[Saving], known: KnownQueue, now: Moment) -> list[bool]:
        if known.queue.is_limited:
            return self.take_limited(savings, known, now)
        return self.save(savings, now)

    def _claimed_by(
        self, nonce: str, queues: Sequence[Queue], takers: int, now: Moment
    ) -> list[list[Claimed]]:
        """What a call took, by taker, as far as the claims hold. Their leases begin anew."""
        held: list[list[Claimed]] = [[] for _ in range(takers)]
        found = [job.id for job in self._live_jobs() if _is_taken_by(nonce, job.record)]
        jobs = self.read_records(found).values()  # with all that a worker is given
        savings: list[Saving] = []
        for job in self._whole([job for job in jobs if _is_taken_by(nonce, job.record)], now):
            record = job.record
            record.lease, record.updated_at = record.lease.heard_of(now), now
            savings.append(Saving(job))
        for one, was in zip(savings, self.save(savings, now), strict=True):
            if was and one.job.record.nonce is not None:
                held[one.job.record.nonce[1]].append(one.job.record.as_claimed())
        return [paged(in_order(claims, queues)) for claims in held]

    def each_job(
        self,
        asked: Sequence[tuple[str, T]],
        act: Callable[[Filed, T], tuple[object, bool]],
        now: Moment,
        wanted: Wanted = what_was,
        look: Callable[[Iterable[Filed]], None] | None = None,
    ) -> list[object]:
        """Let `act` change each of these jobs; its answers. It answers with whether it changed the
        job, which is then written; if that is too late, it is asked again. A job that is not there
        is `GONE`. `look` sees jobs after each reading; by default they are taken to be claimed by
        workers, and it sees which of them are covered."""
        read = self.read_claimed if look is None else self.read
        answers: dict[int, object] = {}
        for part in rounds(dict(enumerate(asked)), lambda one: [one[0]]):
            left = part
            for _ in range(MOST_RACES):
                jobs = read([job_id for job_id, _ in left.values()], wanted)
                (look or self._cover)(jobs.values())
                changed: dict[int, Saving] = {}
                for at, (job_id, what) in left.items():
                    job = jobs.get(job_id)
                    if job is None or job.is_gone(now):
                        answers[at] = GONE
                        continue
                    answers[at], is_changed = act(job, what)
                    if is_changed:
                        changed[at] = Saving(job)
                done = self.save(list(changed.values()), now)
                left = {at: left[at] for at, was in zip(changed, done, strict=True) if not was}
                if not left:
                    break
            else:
                raise too_many_races()
        return [answers[at] for at in range(len(asked))]

    def touch(self, touches: Sequence[Touch], now: Moment) -> list[Touched | Refused]:
        queue_of = cache(self._fresh_queue)

        def act(job: Filed, touch: Touch) -> tuple[Touched | Refused, bool]:
            record = job.record
            if record.hidden:
                return GONE, False
            before = record.diagnostics[-1:]
            answer = record.touch(touch, queue_of(record.queue).queue, now)
            return answer, isinstance(answer, Touched) or record.diagnostics[-1:] != before

        return self.each_job([(one.id, one) for one in touches], act, now)  # type: ignore[return-value]

    def interruptions(self, claims: Sequence[tuple[str, int]]) -> Mapping[int, Refused]:
        jobs = self.read((job_id for job_id, _ in claims), what_was)
        self._cover(jobs.values())
        now = self.clock.now()
        found: dict[int, Refused] = {}
        for at, (job_id, epoch) in enumerate(claims):
            job = jobs.get(job_id)
            why = GONE if job is None or not job.is_visible(now) else job.record.interruption(epoch)
            if why is not None:
                found[at] = why
        return found

    def put_operation(
        self,
        job_id: str,
        epoch: int,
        operation: Operation,
        now: Moment,
        limits: OperationLimits = DEFAULT_LIMITS,
    ) -> Operation | Refused:
        part = f"o.{operation.name}"

        def act(job: Filed, report: Operation) -> tuple[Operation | Refused, bool]:
            record = job.record
            if record.hidden:
                return GONE, False
            before = record.diagnostics[-1:], record.operations.get(report.name)
            answer = record.put_operation(epoch, report, now, limits)
            after = record.diagnostics[-1:], record.operations.get(report.name)
            return answer, before != after

        def wanted(name: str) -> bool:
            return name == part or is_past(name)

        [answer] = self.each_job([(job_id, operation)], act, now, wanted)
        return answer  # type: ignore[return-value]


def _is_taken_by(nonce: str, record: Record) -> bool:
    """Whether a job is held by the call with this nonce."""
    if record.state not in LIVE or not record.lease.until:
        return False
    return record.nonce is not None and record.nonce[0] == nonce
