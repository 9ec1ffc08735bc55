"""Schedules in SQLite."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from oncue.core.moment import Moment, from_datetime
from oncue.core.recurrence import OUTCOMES_KEPT, Fate, Outcome, is_as_made
from oncue.core.schedule import CatchUp, Emission, Overlap, Progress, Schedule
from oncue.ports.schedules import Advance
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import StorePart, writing

SQL = rows.load("schedules")
_read_schedule = rows.reader(Schedule, catch_up=CatchUp, overlap=Overlap)
_outcome = rows.reader(Outcome, fate=Fate)


class SqliteSchedules(StorePart):
    @writing
    def advance(self, tx: rows.Tx, advances: Sequence[Advance], now: Moment) -> Collection[int]:
        return [position for position, one in enumerate(advances) if not self._advance(tx, one)]

    def _advance(self, tx: rows.Tx, one: Advance) -> bool:
        made = ((outcome, rows.get_job(tx, outcome.job_id)) for outcome in one.withdrawn)
        if not all(is_as_made(job, outcome) for outcome, job in made):
            return False
        is_progress = one.is_progress
        recorded = _recorded(tx, one, is_progress)
        if recorded is None:
            return False
        for outcome in one.withdrawn:
            tx.execute(SQL["withdraw"], {"id": outcome.job_id})
            decided_at = from_datetime(outcome.decided_at)
            tx.execute(SQL["redecide"], (outcome.fate, decided_at, one.name, outcome.job_id))
        if one.then is None:
            tx.execute(SQL["forget_outcomes"], {"name": one.name})
        for job in one.jobs:
            tx.execute(SQL["insert_occurrence"], (*job[:6], job.owner, one.name, job.epoch))
            self.db.arrived(tx, {job.queue: job.due_at})
        _record(tx, one.name, recorded, one.outcomes)
        if not is_progress:
            self.db.tell(None, 0)
        return True

    def schedule(self, name: str) -> Schedule | None:
        found = self._found("schedule", {"name": name})
        return found[0] if found else None

    def schedules(self, after: str | None, limit: int) -> Sequence[Schedule]:
        return self._found("schedules", {"after": after or "", "limit": limit})

    def outcomes(self, name: str) -> Sequence[Outcome]:
        with self.db.reading() as tx:
            return [_outcome(row) for row in rows.fetch(tx, SQL["outcomes"], {"name": name})]

    def waking(self, until: Moment, limit: int) -> Sequence[Schedule]:
        return self._found("waking", {"until": until, "limit": limit})

    def timed_otherwise(
        self, digest_of: Callable[[str], str | None], limit: int
    ) -> Sequence[Schedule]:
        with self.db.reading() as tx:
            known = rows.fetch(tx, SQL["zone_digests"])
        for timezone, digest in known:
            if digest_of(timezone) not in (None, digest):
                params = {"timezone": timezone, "digest": digest, "limit": limit}
                return self._found("schedules_by_zone", params)
        return ()

    def _found(self, statement: str, params: dict[str, Any]) -> list[Schedule]:
        """As many as have room in memory, at least one."""
        with self.db.reading() as tx:
            found = map(_schedule, tx.execute(SQL[statement], params))
            most = params.get("limit", 1)
            return rows.bounded(found, most, lambda schedule: len(schedule.payload_json))[0]


def _recorded(tx: rows.Tx, one: Advance, is_progress: bool) -> int | None:
    """Apply the change to the schedule's row. How many outcomes it had recorded before; None: it is
    not as it was seen, and nothing was changed."""
    seen, then = one.seen, one.then
    if seen is None:
        return 0 if then is not None and _insert(tx, then, one, 0) else None
    was = (seen.revision, seen.progress.next_at, seen.progress.wake_at)
    recorded: Any
    if then is not None and is_progress:
        progress = one.progress or then.progress
        recorded = tx.execute(SQL["advance"], (*was, *progress, len(one.outcomes))).get
    else:
        recorded = tx.execute(SQL["remove_schedule"], was).get
        if recorded is not None and then is not None:
            _insert(tx, then, one, recorded)
    return None if recorded is None else int(recorded)


def _insert(tx: rows.Tx, schedule: Schedule, one: Advance, recorded: int) -> bool:
    """False: there is one of that name."""
    emits, every = schedule.emits, schedule.every_seconds
    row = (
        *(schedule.name, schedule.cron, None if every is None else round(every * 1000)),
        *(schedule.timezone, schedule.queue, schedule.payload_json, schedule.owner),
        *((None, None) if emits is None else (emits.event_type, emits.resource_id)),
        *(str(schedule.catch_up), str(schedule.overlap), int(schedule.paused)),
        *(from_datetime(schedule.anchor_at), schedule.zone_digest),
        *(from_datetime(schedule.created_at), from_datetime(schedule.updated_at)),
        *(*(one.progress or schedule.progress), recorded + len(one.outcomes)),
    )
    tx.execute(SQL["put_schedule"], row)
    return bool(tx.changes())


def _record(tx: rows.Tx, name: str, recorded: int, outcomes: Sequence[Outcome]) -> None:
    for number, one in enumerate(outcomes, start=recorded):
        moments = (from_datetime(one.at), from_datetime(one.until), from_datetime(one.decided_at))
        row = (name, number % OUTCOMES_KEPT, number, str(one.fate), *moments, one.count, one.job_id)
        tx.execute(SQL["record_outcome"], row)


def _schedule(row: Sequence[Any]) -> Schedule:
    """From the columns of `schedules.sql: schedule_columns`."""
    emits = None if row[7] is None else Emission(row[7], row[8])
    return _read_schedule((*row[:7], emits, *row[9:17], Progress(*row[17:21]), row[21]))
