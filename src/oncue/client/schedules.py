"""Recurring schedules at a server: set them, look at coming runs, change them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from oncue.client.asking import Asking, encode, seconds_of
from oncue.client.connection import AnswerLost, Request, path, query
from oncue.core import payload as payloads
from oncue.core.duration import Duration
from oncue.core.errors import NotFound
from oncue.core.queue import DEFAULT_QUEUE
from oncue.core.recurrence import Outcome
from oncue.core.runs import Difference, Run
from oncue.core.schedule import Emission, Schedule, read_emission
from oncue.wire import schedules as wire
from oncue.wire.converting import read

PAGE = 500


class RemoteSchedules(Asking):
    def every(self, rhythm: str | float | timedelta, *, name: str, **fields: Any) -> Schedule:
        """Make a job again and again, as `Scheduler.every` does: at the times of a cron expression,
        or after every so many seconds."""
        if isinstance(rhythm, str) and not rhythm.startswith("P"):
            return self.put_schedule(name, cron=rhythm, **fields)
        return self.put_schedule(name, every_seconds=rhythm, **fields)

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
        See `Scheduler.put_schedule` for what the fields mean."""
        fields = {
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
        return self._schedule(Request("PUT", path("schedules", name), _sent(fields)))

    def schedule_named(self, name: str) -> Schedule:
        """The schedule as it is now."""
        return self._schedule(Request("GET", path("schedules", name)))

    def schedules(self) -> Iterator[Schedule]:
        """All schedules by name, fetched page by page."""
        after: str | None = None
        while True:
            request = Request("GET", "/schedules" + query({"limit": PAGE, "cursor": after}))
            body = self._ask(request, wire.Schedules)
            yield from (one.read() for one in body.items)
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
        body = self._ask(Request("GET", path("schedules", name, "outcomes")), wire.Outcomes)
        return [read(Outcome, one) for one in body.items]

    def next_runs(self, name: str, count: int = 20) -> list[Run]:
        """The coming runs in UTC and local time, with what gaps and overlaps do to them. Of a
        paused schedule, as if it were resumed."""
        place = path("schedules", name, "next") + query({"count": count})
        return [one.read() for one in self._ask(Request("GET", place), wire.Runs).items]

    def preview_schedule(self, name: str, *, count: int = 20, **fields: Any) -> Difference:
        """What `put_schedule` with these fields would change about the coming runs."""
        place = path("schedules", name, "preview") + query({"count": count})
        return read(Difference, self._ask(Request("POST", place, _sent(fields)), wire.RunChanges))

    def _schedule_is_there(self, name: str) -> bool:
        try:
            return self.schedule_named(name).name == name
        except NotFound:
            return False

    def _schedule(self, request: Request) -> Schedule:
        return self._ask(request, wire.Schedule).read()


def _sent(fields: Mapping[str, Any]) -> bytes:
    """The fields of a schedule as they travel; what they mean is for the server to say."""
    told = dict(fields)
    emits = read_emission(told.get("emits"))
    told["emits"] = None if emits is None else emits.as_dict()
    told["every_seconds"] = seconds_of(told.get("every_seconds"))
    if told.get("payload") is not None:
        told["payload"] = msgspec.Raw(payloads.encode(told["payload"]))
    return encode(told)
