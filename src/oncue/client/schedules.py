"""Schedules at a server: say what comes again and again, look at what is coming, change it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from oncue.client.asking import Asking, encode, seconds_of
from oncue.client.connection import AnswerLost, Request, path, query
from oncue.core import payload as payloads
from oncue.core.cron import Mark
from oncue.core.duration import Duration
from oncue.core.errors import NotFound
from oncue.core.moment import EPOCH, from_datetime
from oncue.core.queue import DEFAULT_QUEUE
from oncue.core.recurrence import Fate, Outcome
from oncue.core.runs import Difference, Run
from oncue.core.schedule import CatchUp, Emission, Overlap, Progress, Schedule, read_emission

PAGE = 500


class EmissionBody(msgspec.Struct):
    eventType: str
    eventResourceId: str


class ScheduleBody(msgspec.Struct):
    name: str
    timezone: str
    queue: str
    payload: msgspec.Raw
    catch_up: CatchUp
    overlap: Overlap
    paused: bool
    created_at: datetime
    updated_at: datetime
    cron: str | None = None
    every_seconds: float | None = None
    owner: str | None = None
    emits: EmissionBody | None = None
    anchor_at: datetime | None = None
    next_at: datetime | None = None
    last_at: datetime | None = None
    last_job_id: str | None = None


class SchedulesBody(msgspec.Struct):
    items: list[ScheduleBody]
    next_cursor: str | None = None


class RunBody(msgspec.Struct):
    at: datetime
    local: datetime
    mark: Mark
    note: str | None = None


class RunsBody(msgspec.Struct):
    items: list[RunBody]


class DifferenceBody(msgspec.Struct):
    removed: list[RunBody]
    added: list[RunBody]
    kept: list[RunBody]


class OutcomeBody(msgspec.Struct):
    fate: Fate
    at: datetime
    until: datetime
    decided_at: datetime
    count: int | None = None
    job_id: str | None = None


class OutcomesBody(msgspec.Struct):
    items: list[OutcomeBody]


class RemoteSchedules(Asking):
    def every(self, rhythm: str | float | timedelta, *, name: str, **members: Any) -> Schedule:
        """Make a job again and again, as `Scheduler.every` does: at the times of a cron expression,
        or after every so many seconds."""
        if isinstance(rhythm, str) and not rhythm.startswith("P"):
            return self.put_schedule(name, cron=rhythm, **members)
        return self.put_schedule(name, every_seconds=rhythm, **members)

    def put_schedule(
        self,
        name: str,
        *,
        cron: str | None = None,
        every_seconds: Duration | None = None,
        timezone: str = "UTC",
        queue: str = DEFAULT_QUEUE,
        payload: Any = None,
        owner: str | None = None,
        emits: Emission | Mapping[str, Any] | None = None,
        catch_up: str = "once",
        overlap: str = "allow",
        paused: bool | None = None,
    ) -> Schedule:
        """Create a schedule, or replace all of the one of that name; `paused` stays unless given.
        See `Scheduler.put_schedule` for what the members mean."""
        members = {
            "cron": cron,
            "every_seconds": every_seconds,
            "timezone": timezone,
            "queue": queue,
            "payload": payload,
            "owner": owner,
            "emits": emits,
            "catch_up": catch_up,
            "overlap": overlap,
            "paused": paused,
        }
        return self._schedule(Request("PUT", path("schedules", name), _sent(members)))

    def schedule_named(self, name: str) -> Schedule:
        """The schedule as it is now."""
        return self._schedule(Request("GET", path("schedules", name)))

    def schedules(self) -> Iterator[Schedule]:
        """All schedules by name, fetched page by page."""
        after: str | None = None
        while True:
            request = Request("GET", "/schedules" + query({"limit": PAGE, "cursor": after}))
            body = self._ask(request, SchedulesBody)
            yield from map(_schedule, body.items)
            if body.next_cursor is None:
                return
            after = body.next_cursor

    def delete_schedule(self, name: str) -> None:
        """Forget a schedule. Its jobs that are due stay."""
        request = Request("DELETE", path("schedules", name), repeatable=False)
        try:
            self.connection.ask(request)
        except AnswerLost:  # if it was carried out, a second request would be refused
            if self._schedule_is_there(name):
                self.connection.ask(request)

    def pause_schedule(self, name: str) -> Schedule:
        """Let nothing of this schedule happen until it is resumed; jobs that are due stay."""
        return self._schedule(Request("POST", path("schedules", name, "pause")))

    def resume_schedule(self, name: str) -> Schedule:
        """Go on with the next occurrence; those during the pause are recorded as left out."""
        return self._schedule(Request("POST", path("schedules", name, "resume")))

    def schedule_outcomes(self, name: str) -> Sequence[Outcome]:
        """What became of the last hundred occurrences, oldest first: made, missed, overlapped,
        paused or withdrawn."""
        body = self._ask(Request("GET", path("schedules", name, "outcomes")), OutcomesBody)
        return [
            Outcome(one.fate, one.at, one.until, one.decided_at, one.count, one.job_id)
            for one in body.items
        ]

    def next_runs(self, name: str, count: int = 20) -> list[Run]:
        """The coming runs in UTC and local time, with what gaps and overlaps do to them. Of a
        paused schedule, as if it were resumed."""
        place = path("schedules", name, "next") + query({"count": count})
        return _runs(self._ask(Request("GET", place), RunsBody).items)

    def preview_schedule(self, name: str, *, count: int = 20, **members: Any) -> Difference:
        """What `put_schedule` with these members would change about the coming runs."""
        place = path("schedules", name, "preview") + query({"count": count})
        body = self._ask(Request("POST", place, _sent(members)), DifferenceBody)
        return Difference(_runs(body.removed), _runs(body.added), _runs(body.kept))

    def _schedule_is_there(self, name: str) -> bool:
        try:
            return self.schedule_named(name).name == name
        except NotFound:
            return False

    def _schedule(self, request: Request) -> Schedule:
        return _schedule(self._ask(request, ScheduleBody))


def _sent(members: Mapping[str, Any]) -> bytes:
    """The members of a schedule as they travel; what they mean is for the server to say."""
    told = dict(members)
    emits = read_emission(told.get("emits"))
    told["emits"] = None if emits is None else emits.as_dict()
    told["every_seconds"] = seconds_of(told.get("every_seconds"))
    if told.get("payload") is not None:
        told["payload"] = msgspec.Raw(payloads.encode(told["payload"]))
    return encode(told)


def _schedule(body: ScheduleBody) -> Schedule:
    """As the server has it; how it is timed inside the store is known there alone."""
    emits = body.emits
    return Schedule(
        body.name,
        cron=body.cron,
        every_seconds=body.every_seconds,
        timezone=body.timezone,
        queue=body.queue,
        payload_json=bytes(body.payload),
        owner=body.owner,
        emits=None if emits is None else Emission(emits.eventType, emits.eventResourceId),
        catch_up=body.catch_up,
        overlap=body.overlap,
        paused=body.paused,
        anchor_at=body.anchor_at or EPOCH,
        created_at=body.created_at,
        updated_at=body.updated_at,
        progress=Progress(
            next_at=_moment(body.next_at),
            last_at=_moment(body.last_at),
            last_job_id=body.last_job_id,
        ),
    )


def _runs(bodies: list[RunBody]) -> list[Run]:
    return [Run(one.at, one.local, one.mark, one.note or "") for one in bodies]


def _moment(at: datetime | None) -> int | None:
    return None if at is None else from_datetime(at)
