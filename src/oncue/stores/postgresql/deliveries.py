"""How range claims end in PostgreSQL: what a sink took, and what it refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter

from oncue.core.ids import REMEMBERED_MS
from oncue.core.job import Delivery
from oncue.core.moment import Moment
from oncue.core.queue import Queue, default_queue
from oncue.ports.claims import RangeClaim
from oncue.ports.sink import Refusal
from oncue.stores.postgresql import records
from oncue.stores.postgresql.binary import Texts
from oncue.stores.postgresql.endings import PgEndings
from oncue.stores.postgresql.settings import queue_row
from oncue.stores.postgresql.tx import Asked, PgTx

FEW = 100  # jobs: to look for those that are gone costs less than a journey to the server

_ID = itemgetter(Delivery._fields.index("id"))  # by position: they are asked for every job
_ATTEMPT = itemgetter(Delivery._fields.index("attempt"))


class PgDeliveries(PgEndings):
    """Implements the ends of range claims of `oncue.ports.claims.ClaimStore`."""

    def extend_range(self, claim: RangeClaim, lease_until: Moment) -> bool:
        params = {**_place(claim), "lease_until": lease_until}

        def extend(tx: PgTx) -> bool:
            tx.run("ranges", "extend", params)
            return tx.changes() > 0

        return self.db.once(extend)

    def settle_range(
        self,
        claim: RangeClaim,
        delivered: Sequence[str],
        refused: Mapping[str, Refusal],
        now: Moment,
        *,
        left: int = 0,
    ) -> bool:
        if not claim.jobs and not left:
            return self.db.once(partial(self._let_go, claim))
        return self.db.write(
            lambda tx: self._settle_range(tx, claim, delivered, refused, now, left), "repeat"
        )

    def _let_go(self, claim: RangeClaim, tx: PgTx) -> bool:
        """By one statement: it is done for each shard of a burst."""
        tx.run("ranges", "let_go", _place(claim))
        held = tx.changes() > 0
        self._announce_room(tx, claim.queue)
        return held

    def _settle_range(
        self,
        tx: PgTx,
        claim: RangeClaim,
        delivered: Sequence[str],
        refused: Mapping[str, Refusal],
        now: Moment,
        left: int,
    ) -> bool:
        named = ("queues", "named", {"names": [claim.queue]})
        rows, found = tx.together(("ranges", "lock", _place(claim)), named)
        if not rows or claim.fence <= 0 or rows[0][1] != claim.fence:
            return False
        holder = rows[0][0]
        if holder is None:  # this very call has let it go before
            return True
        queue = queue_row(*found[0]).queue if found else default_queue(claim.queue)
        attempts = dict(zip(map(_ID, claim.jobs), map(_ATTEMPT, claim.jobs), strict=True))
        taken = [one for one in delivered if one in attempts]
        if refused:
            self._refuse(tx, claim, refused, attempts, holder, queue, now)
        last: list[Asked] = []
        for attempt, ids in _by_attempt(taken, attempts).items():
            last += self._deliver(tx, claim, attempt, ids, holder, queue, now)
        tx.end(*last, ("ranges", "settle", {**_place(claim), "left": left}))
        if queue.concurrency is not None:
            tx.tell(claim.queue, 0)
        if not left and len(delivered) + len(refused) < len(claim.jobs):
            tx.tell(claim.queue, min(job.due_at for job in claim.jobs))  # due as before
        return True

    def _deliver(
        self,
        tx: PgTx,
        claim: RangeClaim,
        attempt: int,
        ids: Sequence[str],
        holder: str,
        queue: Queue,
        now: Moment,
    ) -> list[Asked]:
        """Statements that record the delivery of these jobs. Those of which nothing is kept are
        removed, except where the id is remembered: where few are, both statements go together."""
        params = {"ids": Texts.of(ids), "attempt": attempt - 1, "queue": claim.queue}
        asked: list[Asked] = []
        if not queue.keeps_history:
            if attempt > 1:  # only an earlier attempt has left operations
                asked.append(("jobs", "remove_operations", {"ids": ids}))
            asked.append(("ranges", "delivered_gone", params))
            if len(ids) > FEW:
                for one in asked:
                    tx.run(*one)
                if tx.changes() == len(ids):
                    return []
                asked = []
        more = {
            "holder": holder,
            "claimed_at": claim.claimed_at,
            "now": now,
            "kept": queue.keeps_history,
            "forget_at": now + REMEMBERED_MS,
        }
        return [*asked, ("ranges", "delivered", {**params, **more})]

    def _refuse(
        self,
        tx: PgTx,
        claim: RangeClaim,
        refused: Mapping[str, Refusal],
        attempts: Mapping[str, int],
        holder: str,
        queue: Queue,
        now: Moment,
    ) -> None:
        """End the jobs that were refused for good, and let the others wait. Jobs that are no longer
        there to be handed over are left alone."""
        changed = []
        for one in records.lock(tx, refused).values():
            record, why = one.record, refused[one.record.id]
            if not record.covered or record.queue != claim.queue or record.not_before is not None:
                continue
            if record.attempt + 1 != attempts.get(record.id):
                continue
            if not why.permanent:
                record.put_off(queue.retry, why.detail, now)
                self._announce_waiting(tx, record)
                changed.append(one)
                continue
            record.deliver(holder, claim.claimed_at, why.detail, queue, now)
            if not queue.keeps_history:
                one = one.hide(self._remembered_until(one, now))
            changed.append(one)
        gone = [one.record.id for one in changed if one.record.hidden]
        records.save(tx, changed)
        if gone:
            tx.run("jobs", "remove_operations", {"ids": gone})


def _by_attempt(taken: Sequence[str], attempts: Mapping[str, int]) -> dict[int, list[str]]:
    """These jobs by the number of the attempt that their delivery is; mostly the first."""
    numbers = set(attempts.values())
    if taken and len(numbers) == 1:
        return {numbers.pop(): list(taken)}
    found: dict[int, list[str]] = {}
    for job_id in taken:
        found.setdefault(attempts[job_id], []).append(job_id)
    return found


def _place(claim: RangeClaim) -> dict[str, int | str]:
    return {"queue": claim.queue, "shard": claim.shard, "fence": claim.fence}
