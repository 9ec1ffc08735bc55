"""Recurring schedules at a server: set them, look at coming runs, change them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Unpack

import msgspec

from oncue.client.asking import Asking, encode, seconds_of
from oncue.client.connection import Call, path, query
from oncue.core import payload as payloads
from oncue.core.queue import check_name
from oncue.core.recurrence import Outcome
from oncue.core.runs import Difference, Run
from oncue.core.schedule import Schedule, read_emission
from oncue.usecases.schedules import ScheduleFields, ScheduleVerbs, possible_schedule
from oncue.wire import schedules as wire
from oncue.wire.converting import read


class RemoteSchedules(Asking, ScheduleVerbs):
    def put_schedule(self, name: str, **fields: Unpack[ScheduleFields]) -> Schedule:
        return self._schedule(
            Call("PUT", path("schedules", check_name(name, "a schedule")), _sent(fields))
        )

    def schedule_named(self, name: str) -> Schedule:
        return self._schedule(Call("GET", _place(name)))

    def schedules(self) -> Iterator[Schedule]:
        return self._listed("/schedules", wire.Schedules, wire.Schedule.read)

    def delete_schedule(self, name: str) -> None:
        self._delete("schedules", possible_schedule(name))

    def _set_paused(self, name: str, paused: bool) -> Schedule:
        verb = "pause" if paused else "resume"
        return self._schedule(Call("POST", _place(name, verb)))

    def schedule_outcomes(self, name: str) -> Sequence[Outcome]:
        return self._ask(
            Call("GET", _place(name, "outcomes")),
            wire.Outcomes,
            lambda body: [read(Outcome, one) for one in body.items],
        )

    def next_runs(self, name: str, count: int = 20) -> list[Run]:
        place = _place(name, "next") + query({"count": count})
        return self._ask(
            Call("GET", place), wire.Runs, lambda body: [one.read() for one in body.items]
        )

    def preview_schedule(
        self, name: str, *, count: int = 20, **fields: Unpack[ScheduleFields]
    ) -> Difference:
        place = _place(name, "preview") + query({"count": count})
        request = Call("POST", place, _sent(fields))
        return self._ask(request, wire.RunChanges, partial(read, Difference))

    def _schedule(self, request: Call) -> Schedule:
        return self._ask(request, wire.Schedule, wire.Schedule.read)


def _place(name: str, *more: str) -> str:
    return path("schedules", possible_schedule(name), *more)


def _sent(fields: Mapping[str, Any]) -> bytes:
    """The fields of a schedule as they travel; what they mean is for the server to say."""
    sent = dict(fields)
    emits = read_emission(sent.get("emits"))
    sent["emits"] = None if emits is None else emits.as_dict()
    sent["every_seconds"] = seconds_of(sent.get("every_seconds"))
    if sent.get("payload") is not None:
        sent["payload"] = msgspec.Raw(payloads.encode(sent["payload"]))
    return encode(sent)
