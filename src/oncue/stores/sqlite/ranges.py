"""Dispatchers' range claims in SQLite: one record covers a whole batch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import apsw

from oncue.core.fencing import Held, refused_by_sink, settled_facts
from oncue.core.job import Delivery, Diagnostic
from oncue.core.lifecycle import Verb
from oncue.core.moment import Moment, to_datetime
from oncue.core.putoff import put_off_until
from oncue.core.queue import Queue
from oncue.ports.claims import RangeClaim
from oncue.ports.sink import Refusal
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.fencing import held_claims, record, remove
from oncue.stores.sqlite.lines import (
    OpenRange,
    first_jobs,
    hand_over_lines,
    open_range,
    waiting_dues,
)
from oncue.stores.sqlite.readying import limits, make_ready, worth_a_claim
from oncue.stores.sqlite.statements import load

SQL = load("ranges")
_PAYLOAD = Delivery._fields.index("payload")


class Ranges:
    """A range is a queue here."""

    db: Database

    def claim_range(
        self,
        queues: Sequence[Queue],
        dispatcher: str,
        limit: int,
        now: Moment,
        *,
        lease_seconds: float,
        due_until: Moment | None = None,
    ) -> RangeClaim:
        until = now if due_until is None else due_until
        lease_until = now + round(lease_seconds * 1000)
        if not worth_a_claim(self.db, queues, until, now):
            return RangeClaim("", 0, (), queues)

        def claim(tx: apsw.Connection) -> RangeClaim:
            for queue in queues:
                params = {"queue": queue.name, "now": now, "dispatcher": dispatcher}
                tx.execute(SQL["take_over"], params)
            busy: list[Moment] = []
            for queue in queues:
                held = open_range(tx, queue.name)
                if held is not None:
                    busy.append(held.lease_until)
                    continue
                ready = make_ready(self.db, tx, queue.name, limit, until, now)
                params = {"queue": queue.name, "until": until, "now": now}
                most = ready.room.most
                due, line = first_jobs(tx, SQL["due"], params, ready.lines, most, _PAYLOAD)
                if due:
                    jobs = [Delivery._make(row) for row in due]
                    self.db.expected[queue.name] = 0
                    ready.spend(tx, queue.name, len(jobs))
                    held = OpenRange(lease_until, until, line, jobs[-1].due_at, jobs[-1].id)
                    record = {"queue": queue.name, "dispatcher": dispatcher, "now": now}
                    [fence] = rows.first(tx, SQL["open"], record | held._asdict())
                    return RangeClaim(queue.name, fence, jobs, queues)
            return RangeClaim("", 0, (), queues, min(busy, default=None))

        # A range that is lost with the power takes nothing along but its dispatcher, and the jobs
        # are delivered again as they would be anyway. So the hand-over need not wait for the disk.
        return self.db.write(claim, synced=False)

    def extend_range(self, claim: RangeClaim, lease_until: Moment) -> bool:
        def extend(tx: apsw.Connection) -> bool:
            own = {"queue": claim.range, "fence": claim.fence, "lease_until": lease_until}
            tx.execute(SQL["extend"], own)
            return tx.changes() == 1

        return self.db.write(extend)

    def settle_range(
        self,
        claim: RangeClaim,
        delivered: Sequence[str],
        refused: Mapping[str, Refusal],
        now: Moment,
    ) -> bool:
        queue = next((queue for queue in claim.queues if queue.name == claim.range), None)
        if queue is None:  # an empty claim
            return False

        def settle(tx: apsw.Connection) -> bool:
            closed = rows.first(tx, SQL["close"], {"queue": claim.range, "fence": claim.fence})
            if closed is None:
                return False
            own = {"queue": queue.name, "now": now, "dispatcher": closed[0], "opened_at": closed[1]}
            if delivered:
                _deliver(tx, queue, delivered, own)
            for_good, for_now = _errors(refused, permanent=True), _errors(refused, permanent=False)
            if for_good:
                _fail(tx, queue, for_good, own)
            for not_before in _put_off(tx, queue, for_now, now) if for_now else ():
                self.db.tell(queue.name, not_before)
            if len(delivered) + len(refused) < len(claim.jobs):
                self.db.tell(queue.name, 0)
            self.db.tell_room(queue.name)
            return True

        return self.db.write(settle)

    def next_due(self, queues: Sequence[str]) -> Moment | None:
        with self.db.reading() as tx:
            found = [(due, queue) for queue in queues for due in _next_dues(tx, queue)]
        for due, queue in sorted(found, reverse=True):
            self.db.expected[queue] = due
        return min(found)[0] if found else None


def _deliver(
    tx: apsw.Connection, queue: Queue, delivered: Sequence[str], own: dict[str, Any]
) -> None:
    ids = rows.texts(delivered)
    if not queue.keeps_history:
        tx.execute(SQL["delivered_gone"], {"queue": queue.name, "ids": ids})
        if tx.changes() == len(delivered):
            return
    tx.execute(SQL["delivered"], {**own, "ids": ids})
    if not queue.keeps_history:  # what is left has an id chosen by a client: it is remembered
        tx.execute(SQL["hide_all"], {"queue": queue.name, "ids": ids})


def _errors(refused: Mapping[str, Refusal], *, permanent: bool) -> dict[str, str]:
    return {job_id: one.detail for job_id, one in refused.items() if one.permanent is permanent}


def _fail(
    tx: apsw.Connection, queue: Queue, errors: Mapping[str, str], own: dict[str, Any]
) -> None:
    """End the jobs that were refused for good."""
    waiting = [job_id for job_id, _ in _refusals_of(tx, queue, errors)]
    tx.executemany(
        SQL["refused"], [{**own, "id": job_id, "error": errors[job_id]} for job_id in waiting]
    )
    failed = held_claims(tx, waiting).values()
    record(tx, [(one.n, _failure(one, errors[one.id], own["now"])) for one in failed])
    if not queue.keeps_history:
        remove(tx, [one.n for one in failed])


def _failure(held: Held, error: str, now: Moment) -> Diagnostic:
    detail, facts = refused_by_sink(error), settled_facts(Verb.FAIL, held.worker, error)
    return Diagnostic(to_datetime(now), "failure", detail, held.attempt, held.epoch, facts)


def _put_off(
    tx: apsw.Connection, queue: Queue, errors: Mapping[str, str], now: Moment
) -> list[Moment]:
    """Let the jobs that were refused for now wait. Until when each."""
    waits = []
    for job_id, before in _refusals_of(tx, queue, errors):
        until = put_off_until(queue.retry, job_id, before + 1, now)
        waits.append((job_id, until, before + 1, errors[job_id], now))
    tx.executemany(SQL["put_off"], waits)
    return [until for _, until, *_ in waits]


def _refusals_of(tx: apsw.Connection, queue: Queue, ids: Collection[str]) -> list[tuple[str, int]]:
    """Those of the jobs that still wait, and how often each was refused before."""
    return rows.fetch(tx, SQL["refusals_of"], {"queue": queue.name, "ids": rows.texts(ids)})


def _next_dues(tx: apsw.Connection, queue: str) -> list[Moment]:
    """When something of this queue can be taken: when it is due, or, inside an open range, when
    the lease ends and it may be taken over; never before its rate allows it."""
    bounds = limits(tx, queue)
    if bounds.limits.paused:
        return []
    dues: list[Moment] = []
    if not bounds.limits.is_full(bounds.under_way(tx, queue)):
        dues += waiting_dues(tx, queue, hand_over_lines(tx, queue), bounds.held)
        dues += [at for [at] in rows.fetch(tx, SQL["next_return"], {"queue": queue}) if at]
    if bounds.held is not None:
        dues.append(bounds.held.lease_until)
    return bounds.limits.next_turns(dues)
