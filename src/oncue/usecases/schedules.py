"""Recurring schedules: set them, look at coming runs, change them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypedDict, Unpack

from oncue.core import payload as payloads
from oncue.core.checks import flag, only, whole
from oncue.core.duration import Duration
from oncue.core.errors import InvalidInput, NotFound
from oncue.core.moment import Moment
from oncue.core.queue import check_name
from oncue.core.recurrence import Outcome, anchor, begun
from oncue.core.runs import Difference, Run, coming, difference
from oncue.core.schedule import Emission, Schedule, check_schedule, read_emission
from oncue.core.text import quoted
from oncue.usecases import intake
from oncue.usecases.local import Local, by_name

RUNS_LIMIT = 1000


class ScheduleFields(TypedDict, total=False):
    """What can be said of a schedule: `cron` or `every_seconds`, and what happens then."""

    cron: str | None
    every_seconds: Duration | None
    timezone: str
    """In which the cron expression is meant; "UTC" if not given."""
    queue: str
    """Of its jobs, as are `payload` and `owner`."""
    payload: Any
    owner: str | None
    emits: Emission | Mapping[str, Any] | None
    """An event at every occurrence, and no job."""
    catch_up: str
    """What becomes of occurrences missed in an outage: `once` (the default) makes the last of
    them, `all` each, `skip` none."""
    overlap: str
    """What happens while the job before is unfinished: `allow` (the default), `skip` the
    occurrence, or `queue` it until that job has ended."""
    paused: bool | None
    """Stays as it was unless given."""


class ScheduleVerbs(ABC):
    """The methods of a scheduler and of a client about recurring schedules."""

    def every(
        self, rhythm: str | float | timedelta, *, name: str, **fields: Unpack[ScheduleFields]
    ) -> Schedule:
        """Make a job again and again: at the times of a cron expression, or after every so many
        seconds (a number, a timedelta, or ISO 8601 such as "PT15M").

            cue.every("30 9 * * MON-FRI", name="stand-up", timezone="Europe/Paris", queue="mail")

        The other fields are those of `put_schedule`. May be called at every start of a program:
        the same call again changes nothing.
        """
        if isinstance(rhythm, str) and not rhythm.startswith("P"):
            fields["cron"] = rhythm
        else:
            fields["every_seconds"] = rhythm
        return self.put_schedule(name, **fields)

    @abstractmethod
    def put_schedule(self, name: str, **fields: Unpack[ScheduleFields]) -> Schedule:
        """Create a schedule, or replace all of the one of that name; `paused` stays unless given.

        Occurrences become jobs of `queue`, or an event if it `emits` one. What is due already
        stays.
        """

    @abstractmethod
    def schedule_named(self, name: str) -> Schedule:
        """The schedule as it is now."""

    @abstractmethod
    def schedules(self) -> Iterator[Schedule]:
        """All schedules by name, fetched page by page."""

    @abstractmethod
    def delete_schedule(self, name: str) -> None:
        """Forget a schedule. Its jobs that are due stay."""

    def pause_schedule(self, name: str) -> Schedule:
        """Let nothing of this schedule happen until it is resumed; jobs that are due stay."""
        return self._set_paused(name, True)

    def resume_schedule(self, name: str) -> Schedule:
        """Go on with the next occurrence; those during the pause are recorded as left out."""
        return self._set_paused(name, False)

    @abstractmethod
    def _set_paused(self, name: str, paused: bool) -> Schedule: ...

    @abstractmethod
    def schedule_outcomes(self, name: str) -> Sequence[Outcome]:
        """What became of the last hundred occurrences, oldest first: made, missed, overlapped,
        paused or withdrawn."""

    @abstractmethod
    def next_runs(self, name: str, count: int = 20) -> list[Run]:
        """The coming runs in UTC and local time, with what gaps and overlaps do to them. Of a
        paused schedule, as if it were resumed."""

    @abstractmethod
    def preview_schedule(
        self, name: str, *, count: int = 20, **fields: Unpack[ScheduleFields]
    ) -> Difference:
        """What `put_schedule` with these fields would change about the coming runs, which are told
        as if the schedule were not paused."""


class LocalSchedules(Local, ScheduleVerbs):
    """The schedules of a store."""

    def put_schedule(self, name: str, **fields: Unpack[ScheduleFields]) -> Schedule:
        return put(self, name, fields)[0]

    def schedule_named(self, name: str) -> Schedule:
        found = self.store.schedule(possible_schedule(name))
        if found is None:
            raise _unknown(name)
        return found

    def schedules(self) -> Iterator[Schedule]:
        return by_name(self.store.schedules)

    def delete_schedule(self, name: str) -> None:
        if not self.engine.recurrer.delete(possible_schedule(name)):
            raise _unknown(name)

    def schedule_outcomes(self, name: str) -> Sequence[Outcome]:
        return self.store.outcomes(self.schedule_named(name).name)

    def next_runs(self, name: str, count: int = 20) -> list[Run]:
        schedule = self.schedule_named(name)
        return coming(schedule, self.clock.now(), whole(count, 1, RUNS_LIMIT, "/count"))

    def preview_schedule(
        self, name: str, *, count: int = 20, **fields: Unpack[ScheduleFields]
    ) -> Difference:
        whole(count, 1, RUNS_LIMIT, "/count")
        now = self.clock.now()
        seen = self.store.schedule(possible_schedule(name))
        wanted = new_schedule(name, {**fields, "paused": False})
        anchored = replace(wanted, anchor_at=anchor(seen, wanted, now))
        before = [] if seen is None else coming(seen, now, count)
        return difference(before, coming(anchored, now, count))

    def _set_paused(self, name: str, paused: bool) -> Schedule:
        def choose(seen: Schedule | None) -> Schedule:
            if seen is None:
                raise _unknown(name)
            return replace(seen, paused=paused)

        return self.engine.recurrer.change(possible_schedule(name), choose)


def put(cue: Local, name: str, fields: Mapping[str, Any]) -> tuple[Schedule, bool]:
    """Create or replace a schedule, as `put_schedule` does; also whether it is new."""
    wanted = new_schedule(name, fields)
    cue._check_sendable(wanted.queue, wanted.payload_json)
    replaced: Schedule | None = None

    def choose(seen: Schedule | None) -> Schedule:
        nonlocal replaced
        replaced = seen
        if seen is None or fields.get("paused") is not None:
            return wanted
        return replace(wanted, paused=seen.paused)

    return cue.engine.recurrer.change(wanted.name, choose), replaced is None


def new_schedule(name: Any, fields: Mapping[str, Any]) -> Schedule:
    """The schedule that these fields describe, checked. Without `paused` it is not paused."""
    values = dict(fields)
    body = payloads.encode(values.pop("payload", None))
    values["emits"] = read_emission(values.get("emits"))
    values["owner"] = intake.label(values.get("owner"), "/owner")
    paused = values.get("paused")
    values["paused"] = False if paused is None else flag(paused, "/paused")
    only(values, tuple(ScheduleFields.__annotations__), "the fields of a schedule are")
    return check_schedule(Schedule(name, payload_json=body, **values))


def runs_of(fields: Mapping[str, Any], now: Moment, count: int) -> list[Run]:
    """The coming runs of a schedule with these fields, if it were set now."""
    return coming(begun(new_schedule("unnamed", fields), now), now, count)


def possible_schedule(name: str) -> str:
    """The name, if any schedule can have it."""
    try:
        return check_name(name, "a schedule")
    except InvalidInput:
        raise _unknown(name) from None


def _unknown(name: object) -> NotFound:
    return NotFound(f"there is no schedule {quoted(name)}; `schedules` lists the existing ones.")
