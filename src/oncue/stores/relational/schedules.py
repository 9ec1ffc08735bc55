"""Schedules in a store on SQL."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from oncue.core.moment import Moment, from_datetime
from oncue.core.recurrence import OUTCOMES_KEPT, Fate, Outcome, is_as_made
from oncue.core.schedule import CatchUp, Emission, Overlap, Progress, Schedule
from oncue.ports.schedules import Advance
from oncue.stores.relational.part import RelationalPart, X, transaction
from oncue.stores.relational.rows import bounded, reader
from oncue.stores.relational.tx import RelationalTx

_read_schedule = reader(Schedule, catch_up=CatchUp, overlap=Overlap)
_outcome = reader(Outcome, fate=Fate)


class RelationalSchedules(RelationalPart[X]):
    """Implements `oncue.ports.schedules.ScheduleStore`."""

    @transaction
    def advance(self, tx: X, advances: Sequence[Advance], now: Moment) -> Collection[int]:
        return [position for position, one in enumerate(advances) if not self._advance(tx, one)]

    def _advance(self, tx: X, one: Advance) -> bool:
        if one.withdrawn and not self._are_as_made(tx, one.withdrawn):
            return False
        name, is_progress = one.name, one.is_progress
        recorded = _recorded(tx, one, is_progress)
        if recorded is None:
            return False
        for outcome in one.withdrawn:
            assert outcome.job_id is not None, "its job was found"
            self._withdraw(tx, outcome.job_id)
            decided_at = from_datetime(outcome.decided_at)
            what = {"fate": str(outcome.fate), "decided_at": decided_at}
            tx.do("schedules", "redecide", {"name": name, "job_id": outcome.job_id, **what})
        if one.then is None:
            tx.do("schedules", "forget_outcomes", {"name": name})
        for job in one.jobs:
            self._insert_occurrence(tx, job, name)
        _record(tx, name, recorded, one.outcomes)
        if not is_progress:
            tx.tell(None, 0)
        return True

    def _are_as_made(self, tx: X, withdrawn: Sequence[Outcome]) -> bool:
        return all(is_as_made(self._job_in(tx, one.job_id), one) for one in withdrawn)

    def schedule(self, name: str) -> Schedule | None:
        found = self._schedules("schedule", {"name": name})
        return found[0] if found else None

    def schedules(self, after: str | None, limit: int) -> Sequence[Schedule]:
        return self._schedules("schedules", {"after": after or "", "limit": limit})

    def outcomes(self, name: str) -> Sequence[Outcome]:
        with self._read() as tx:
            return [_outcome(row) for row in tx.rows("schedules", "outcomes", {"name": name})]

    def waking(self, until: Moment, limit: int) -> Sequence[Schedule]:
        return self._schedules("waking", {"until": until, "limit": limit})

    def timed_otherwise(
        self, digest_of: Callable[[str], str | None], limit: int
    ) -> Sequence[Schedule]:
        with self._read() as tx:
            known = tx.rows("schedules", "zone_digests")
        for timezone, digest in known:
            if digest_of(timezone) not in (None, digest):
                params = {"timezone": timezone, "digest": digest, "limit": limit}
                return self._schedules("schedules_by_zone", params)
        return ()

    def _schedules(self, name: str, params: dict[str, Any]) -> list[Schedule]:
        """As many as have room in memory, at least one."""
        with self._read() as tx:
            found = map(_schedule, tx.run("schedules", name, params))
            most = params.get("limit", 1)
            return bounded(found, most, lambda schedule: len(schedule.payload_json))[0]


def _recorded(tx: RelationalTx, one: Advance, is_progress: bool) -> int | None:
    """Apply the change to the schedule's row. How many outcomes it had recorded before; None: it is
    not as it was seen, and nothing was changed."""
    seen, then = one.seen, one.then
    if seen is None:
        return 0 if then is not None and _insert(tx, then, one, 0) else None
    was = seen.progress
    recorded: Any
    if then is not None and is_progress:
        next_at, wake_at, last_at, last_job_id = one.progress or then.progress
        step = {
            "revision": seen.revision,
            "seen_next": was.next_at,
            "seen_wake": was.wake_at,
            "next_at": next_at,
            "wake_at": wake_at,
            "last_at": last_at,
            "last_job_id": last_job_id,
            "count": len(one.outcomes),
        }
        recorded = tx.run("schedules", "advance", step).get
    else:
        as_seen = {"revision": seen.revision, "seen_next": was.next_at, "seen_wake": was.wake_at}
        recorded = tx.run("schedules", "remove_schedule", as_seen).get
        if recorded is not None and then is not None:
            _insert(tx, then, one, recorded)
    return None if recorded is None else int(recorded)


def _insert(tx: RelationalTx, schedule: Schedule, one: Advance, recorded: int) -> bool:
    """False: there is one of that name."""
    emits, every = schedule.emits, schedule.every_seconds
    params = {
        "name": schedule.name,
        "cron": schedule.cron,
        "every_ms": None if every is None else round(every * 1000),
        "timezone": schedule.timezone,
        "queue": schedule.queue,
        "payload": schedule.payload_json,
        "owner": schedule.owner,
        "event_type": None if emits is None else emits.event_type,
        "resource_id": None if emits is None else emits.resource_id,
        "catch_up": str(schedule.catch_up),
        "overlap": str(schedule.overlap),
        "paused": bool(schedule.paused),
        "anchor_at": from_datetime(schedule.anchor_at),
        "zone_digest": schedule.zone_digest,
        "created_at": from_datetime(schedule.created_at),
        "updated_at": from_datetime(schedule.updated_at),
        **(one.progress or schedule.progress)._asdict(),
        "recorded": recorded + len(one.outcomes),
    }
    return bool(tx.change("schedules", "put_schedule", params))


def _record(tx: RelationalTx, name: str, recorded: int, outcomes: Sequence[Outcome]) -> None:
    for number, one in enumerate(outcomes, start=recorded):
        at = from_datetime(one.at)
        params = {
            "schedule": name,
            "place": number % OUTCOMES_KEPT,
            "number": number,
            "fate": str(one.fate),
            "at": at,
            "until": at if one.until == one.at else from_datetime(one.until),
            "decided_at": from_datetime(one.decided_at),
            "count": one.count,
            "job_id": one.job_id,
        }
        tx.do("schedules", "record_outcome", params)


def _schedule(row: Sequence[Any]) -> Schedule:
    """From the columns of `schedules.sql: schedule_columns`."""
    emits = None if row[7] is None else Emission(row[7], row[8])
    return _read_schedule((*row[:7], emits, *row[9:17], Progress(*row[17:21]), row[21]))
