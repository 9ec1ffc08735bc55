"""Schedules in SQLite."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import apsw

from oncue.core.lifecycle import State
from oncue.core.moment import Moment, from_datetime, to_datetime
from oncue.core.recurrence import OUTCOMES_KEPT, Fate, Outcome
from oncue.core.schedule import CatchUp, Emission, Overlap, Progress, Schedule
from oncue.ports.schedules import Advance
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.statements import load

SQL = load("schedules")
GET_JOB = load("jobs")["get"]
ENSURE_QUEUE = load("queues")["ensure"]


class _Refused(Exception):
    """Something is no longer as it was seen; the savepoint is undone."""


class Schedules:
    db: Database

    def put_schedule(
        self,
        seen: Schedule | None,
        schedule: Schedule,
        now: Moment,
        *,
        withdrawn: Sequence[Outcome] = (),
        outcomes: Sequence[Outcome] = (),
    ) -> Schedule | None:
        def put(tx: apsw.Connection) -> Schedule | None:
            try:
                with tx:
                    recorded = 0 if seen is None else _remove(tx, seen, withdrawn)
                    _insert(tx, schedule, recorded + len(outcomes))
                    _record(tx, schedule.name, recorded, outcomes)
            except _Refused:
                return None
            self.db.tell(None, 0)
            return _schedule(rows.first(tx, SQL["schedule"], {"name": schedule.name}))

        return self.db.write(put)

    def delete_schedule(
        self, seen: Schedule, now: Moment, *, withdrawn: Sequence[Outcome] = ()
    ) -> bool:
        def delete(tx: apsw.Connection) -> bool:
            try:
                with tx:
                    _remove(tx, seen, withdrawn)
            except _Refused:
                return False
            tx.execute(SQL["forget_outcomes"], {"name": seen.name})
            self.db.tell(None, 0)
            return True

        return self.db.write(delete)

    def schedule(self, name: str) -> Schedule | None:
        found = self._found("schedule", {"name": name})
        return found[0] if found else None

    def schedules(self, after: str | None, limit: int) -> Sequence[Schedule]:
        return self._found("schedules", {"after": after or "", "limit": limit})

    def outcomes(self, name: str) -> Sequence[Outcome]:
        with self.db.reading() as tx:
            return [_outcome(row) for row in rows.fetch(tx, SQL["outcomes"], {"name": name})]

    def due_schedules(self, now: Moment, limit: int) -> Sequence[Schedule]:
        return self._found("due_schedules", {"now": now, "limit": limit})

    def next_wake(self) -> Moment | None:
        with self.db.reading() as tx:
            wake_at: Moment | None = rows.first(tx, SQL["next_wake"])[0]
            return wake_at

    def advance(self, advances: Sequence[Advance], now: Moment) -> Collection[int]:
        def advance(tx: apsw.Connection) -> list[int]:
            return [position for position, one in enumerate(advances) if not self._advance(tx, one)]

        return self.db.write(advance)

    def _advance(self, tx: apsw.Connection, one: Advance) -> bool:
        seen, then = one.seen, one.progress
        was = (seen.revision, seen.progress.next_at, seen.progress.wake_at)
        recorded = tx.execute(SQL["advance"], (*was, *then, len(one.outcomes))).get
        if recorded is None:
            return False
        for job in one.jobs:
            own = (*job[:6], job.owner, seen.name)
            tx.execute(SQL["insert_occurrence"], own)
            self.db.tell(job.queue, job.due_at)
        if one.jobs and seen.queue not in self.db.known_queues:
            tx.execute(ENSURE_QUEUE, (seen.queue,))
        _record(tx, seen.name, int(str(recorded)) - len(one.outcomes), one.outcomes)
        return True

    def zone_digests(self) -> Collection[tuple[str, str]]:
        with self.db.reading() as tx:
            return [(zone, digest) for zone, digest in rows.fetch(tx, SQL["zone_digests"])]

    def schedules_by_zone(self, timezone: str, digest: str, limit: int) -> Sequence[Schedule]:
        own = {"timezone": timezone, "digest": digest, "limit": limit}
        return self._found("schedules_by_zone", own)

    def _found(self, statement: str, own: dict[str, Any]) -> list[Schedule]:
        with self.db.reading() as tx:
            return list(_within_bounds(rows.stream(tx, SQL[statement], own)))


def _within_bounds(found: Iterator[Any]) -> Iterator[Schedule]:
    """As many as have room in memory, at least one."""
    room = rows.BATCH_BYTES
    for row in found:
        schedule = _schedule(row)
        room -= len(schedule.payload_json)
        yield schedule
        if room <= 0:
            return


def _remove(tx: apsw.Connection, seen: Schedule, withdrawn: Sequence[Outcome]) -> int:
    """Take the schedule away, and those of its jobs; how many outcomes it has recorded."""
    was = {
        "revision": seen.revision,
        "next_at": seen.progress.next_at,
        "wake_at": seen.progress.wake_at,
    }
    row = rows.first(tx, SQL["as_seen"], was)
    if row is None:
        raise _Refused
    for outcome in withdrawn:
        _withdraw(tx, seen.name, outcome)
    tx.execute(SQL["remove_schedule"], {"revision": seen.revision})
    return int(row[0])


def _withdraw(tx: apsw.Connection, name: str, outcome: Outcome) -> None:
    held = rows.first(tx, GET_JOB, {"id": outcome.job_id})
    # Inside an open range it only looks scheduled in its row: it is being delivered.
    if held is None or rows.job(held).state is not State.SCHEDULED:
        raise _Refused
    tx.execute(SQL["withdraw"], {"id": outcome.job_id, "due_at": from_datetime(outcome.at)})
    if not tx.changes():
        raise _Refused
    decided_at = from_datetime(outcome.decided_at)
    own = {"name": name, "job_id": outcome.job_id, "fate": outcome.fate, "decided_at": decided_at}
    tx.execute(SQL["redecide"], own)


def _insert(tx: apsw.Connection, schedule: Schedule, recorded: int) -> None:
    emits, every = schedule.emits, schedule.every_seconds
    row = (
        *(schedule.name, schedule.cron, None if every is None else round(every * 1000)),
        *(schedule.timezone, schedule.queue, schedule.payload_json, schedule.owner),
        *((None, None) if emits is None else (emits.event_type, emits.resource_id)),
        *(str(schedule.catch_up), str(schedule.overlap), int(schedule.paused)),
        *(from_datetime(schedule.anchor_at), schedule.zone_digest),
        *(from_datetime(schedule.created_at), from_datetime(schedule.updated_at)),
        *(*schedule.progress, recorded),
    )
    tx.execute(SQL["put_schedule"], row)
    if not tx.changes():
        raise _Refused


def _record(tx: apsw.Connection, name: str, recorded: int, outcomes: Sequence[Outcome]) -> None:
    for number, one in enumerate(outcomes, start=recorded):
        moments = (from_datetime(one.at), from_datetime(one.until), from_datetime(one.decided_at))
        own = (name, number % OUTCOMES_KEPT, number, str(one.fate), *moments, one.count, one.job_id)
        tx.execute(SQL["record_outcome"], own)


def _schedule(row: Sequence[Any]) -> Schedule:
    return Schedule(
        revision=row[0],
        name=row[1],
        cron=row[2],
        every_seconds=None if row[3] is None else row[3] / 1000,
        timezone=row[4],
        queue=row[5],
        payload_json=row[6],
        owner=row[7],
        emits=None if row[8] is None else Emission(row[8], row[9]),
        catch_up=CatchUp(row[10]),
        overlap=Overlap(row[11]),
        paused=bool(row[12]),
        anchor_at=to_datetime(row[13]),
        zone_digest=row[14],
        created_at=to_datetime(row[15]),
        updated_at=to_datetime(row[16]),
        progress=Progress(*row[17:21]),
        unfinished=bool(row[21]),
    )


def _outcome(row: Sequence[Any]) -> Outcome:
    fate, at, until, decided_at, count, job_id = row
    moments = (to_datetime(at), to_datetime(until), to_datetime(decided_at))
    return Outcome(Fate(fate), *moments, count, job_id)
