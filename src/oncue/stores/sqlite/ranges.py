"""Dispatchers' range claims in SQLite: one record covers a whole batch."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from oncue.core.fencing import diagnostic_of, refused_by_sink
from oncue.core.job import Delivery
from oncue.core.moment import Moment
from oncue.core.putoff import put_off_until
from oncue.core.queue import Queue
from oncue.ports.claims import RangeClaim
from oncue.ports.sink import Refusal
from oncue.stores.sqlite import lines, rows, worker_ranges
from oncue.stores.sqlite.database import StorePart, writing
from oncue.stores.sqlite.fencing import held_claims, record, remove
from oncue.stores.sqlite.readying import limits, make_ready, worth_a_claim
from oncue.stores.sqlite.settings import queue_settings
from oncue.stores.sqlite.worker_ranges import OF_NO_WORKER

SQL = rows.load("ranges")
_PAYLOAD = Delivery._fields.index("payload")


class SqliteRanges(StorePart):
    """Every queue has one shard here: there is one writer."""

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
        until = now if due_until is None else due_until
        if not worth_a_claim(self.db, [queue], until, now):
            return RangeClaim(queue.name)
        params = {"queue": queue.name, "until": until, "now": now, "dispatcher": dispatcher}
        params["lease_until"] = now + round(lease_seconds * 1000)
        # A power cut that loses the range also ends its dispatcher, and then the jobs are delivered
        # again whether the range was stored or not. So the hand-over need not wait for the disk.
        return self.db.write(lambda tx: self._claim(tx, limit, params, in_flight), synced=False)

    def _claim(
        self, tx: rows.Tx, limit: int, params: dict[str, Any], in_flight: Sequence[RangeClaim]
    ) -> RangeClaim:
        name, until, now = params["queue"], params["until"], params["now"]
        worker_ranges.split(tx, "of_queue", params)
        held = lines.open_range(tx, name)
        continued = [one for one in in_flight if held is not None and one.fence == held.fence]
        if held is not None and not continued:
            tx.execute(SQL["take_over"], params)
            if not tx.changes():
                return RangeClaim(name, busy_until=held.lease_until)
            held = None
        flying = [job.id for one in continued for job in one.jobs]
        ready = make_ready(self.db, tx, name, limit, until, now, flying if continued else None)
        statement = SQL["due"]
        if flying:
            statement, params = SQL["due_not_in_flight"], {**params, "ids": rows.texts(flying)}
        jobs: list[Delivery] = []
        most, last_line = ready.room.most, 0
        for line, due in lines.first_jobs(tx, statement, params, ready.lines, most, _PAYLOAD):
            jobs += map(Delivery._make, due)
            last_line = line
        if not jobs:
            return RangeClaim(name)
        self.db.expected[name] = 0
        ready.spend(tx, name, len(jobs))
        through = lines.Through(last_line, jobs[-1].due_at, jobs[-1].id)
        fence = _cover(tx, params, held, through, len(flying) + len(jobs))
        return RangeClaim(name, 0, fence, jobs, now)

    @writing
    def extend_range(self, tx: rows.Tx, claim: RangeClaim, lease_until: Moment) -> bool:
        params = {"queue": claim.queue, "fence": claim.fence, "lease_until": lease_until}
        tx.execute(SQL["extend"], params)
        return tx.changes() == 1

    @writing
    def settle_range(
        self,
        tx: rows.Tx,
        claim: RangeClaim,
        delivered: Sequence[str],
        refused: Mapping[str, Refusal],
        now: Moment,
        *,
        left: int = 0,
    ) -> bool:
        queue = queue_settings(self.db, tx).of(claim.queue)
        params = {"queue": queue.name, "fence": claim.fence, "left": left}
        settled = rows.first(tx, SQL["settle"], params)
        if settled is None:  # taken over; or this very call has let it go before
            return rows.first(tx, SQL["is_let_go"], params) is not None
        batch = {"queue": queue.name, "now": now, "claimed_at": claim.claimed_at}
        batch["dispatcher"] = settled[0]
        for before, ids in _by_attempt(claim):
            batch["before"] = before
            taken = delivered if ids is None else [one for one in delivered if one in ids]
            if taken:
                _deliver(tx, queue, taken, batch)
            denied = refused if ids is None else {i: refused[i] for i in refused if i in ids}
            for not_before in _refuse(tx, queue, denied, batch):
                self.db.tell(queue.name, not_before)
        if len(delivered) + len(refused) < len(claim.jobs):
            self.db.tell(queue.name, 0)
        self.db.tell_room(queue.name)
        return True

    def next_due(self, queues: Sequence[str]) -> Moment | None:
        with self.db.reading() as tx:
            found = [(due, queue) for queue in queues for due in _next_dues(tx, queue)]
        for due, queue in sorted(found, reverse=True):
            self.db.expected[queue] = due
        return min(found)[0] if found else None


def _cover(
    tx: rows.Tx,
    params: dict[str, Any],
    held: lines.OpenRange | None,
    through: lines.Through,
    in_flight: int,
) -> int:
    """Open a range that goes so far, or go on with the one that is held. Its fence."""
    cutoff = params["until"]
    if held is not None:
        through, cutoff = max(through, held.through), max(cutoff, held.cutoff)
    reach = {**through._asdict(), "cutoff": cutoff, "in_flight": in_flight, **OF_NO_WORKER}
    [fence] = rows.first(tx, SQL["open" if held is None else "go_on"], params | reach)
    return int(fence)


def _by_attempt(claim: RangeClaim) -> Iterator[tuple[int, Collection[str] | None]]:
    """The jobs of a claim by the attempt that was stored before it; None: all of them."""
    attempts = {job.attempt for job in claim.jobs}
    if len(attempts) == 1:
        yield attempts.pop() - 1, None
    for attempt in attempts:
        yield attempt - 1, {job.id for job in claim.jobs if job.attempt == attempt}


def _deliver(tx: rows.Tx, queue: Queue, delivered: Sequence[str], batch: dict[str, Any]) -> None:
    params = {**batch, "ids": rows.texts(delivered)}
    if not queue.keeps_history:
        tx.execute(SQL["delivered_gone"], params)
        if tx.changes() == len(delivered):
            return
    tx.execute(SQL["delivered"], params)
    if not queue.keeps_history:  # what is left has an id chosen by a client: it is remembered
        tx.execute(SQL["hide_all"], params)


def _refuse(
    tx: rows.Tx, queue: Queue, refused: Mapping[str, Refusal], batch: dict[str, Any]
) -> list[Moment]:
    """End the jobs that were refused for good, and let the others wait. Until when each of these
    waits. Jobs that are no longer there to be handed over are left alone."""
    if not refused:
        return []
    params = {**batch, "ids": rows.texts(refused)}
    now, failures, waits = batch["now"], [], []
    for job_id, before in rows.fetch(tx, SQL["refusals_of"], params):
        permanent, error = refused[job_id].permanent, refused[job_id].detail
        if permanent:
            failures.append({**batch, "id": job_id, "error": error})
        else:
            until = put_off_until(queue.retry, job_id, before + 1, now)
            waits.append((job_id, until, before + 1, error, now))
    tx.executemany(SQL["put_off"], waits)
    tx.executemany(SQL["refused"], failures)
    failed = held_claims(tx, [one["id"] for one in failures]).values()
    endings = [(one, refused_by_sink(one.id, one.epoch, one.error or "")) for one in failed]
    record(tx, [(one.n, diagnostic_of(one, ending, now)) for one, ending in endings])
    if not queue.keeps_history:
        remove(tx, [one.n for one in failed])
    return [until for _, until, *_ in waits]


def _next_dues(tx: rows.Tx, queue: str) -> list[Moment]:
    """When something of this queue can be taken: when it is due, or, inside an open range, when
    the lease ends and it may be taken over; never before its rate allows it."""
    bounds = limits(tx, queue)
    if bounds.limits.paused:
        return []
    if bounds.held is not None and worker_ranges.have_others_come(tx, queue):
        bounds = bounds._replace(held=None)  # whoever claims splits it first
    dues: list[Moment] = []
    if not bounds.limits.is_full(bounds.under_way(tx, queue)):
        dues += lines.waiting_dues(tx, queue, lines.hand_over_lines(tx, queue), bounds.held)
        dues += [at for [at] in rows.fetch(tx, SQL["next_return"], {"queue": queue}) if at]
    if bounds.held is not None:
        dues.append(bounds.held.lease_until)
    return bounds.limits.next_turns(dues)
