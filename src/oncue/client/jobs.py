"""Creating jobs from another machine, so that repeating a request stores nothing twice."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from oncue.client.asking import Asking, encode, moment_text, read, seconds_of, value_of
from oncue.client.connection import Request
from oncue.core import payload as payloads
from oncue.core.duration import Duration
from oncue.core.errors import Conflict, InvalidInput, OncueError, TooLarge
from oncue.core.job import Job
from oncue.core.queue import DEFAULT_QUEUE
from oncue.scheduler import CHUNK, IDS_KEPT, Tally
from oncue.usecases.intake import FIELDS
from oncue.wire import jobs as wire

CHUNK_BYTES = 4 * 1024 * 1024
_ALLOWED = frozenset(FIELDS)
_PLACE = re.compile(r"(/\S*): (.*)", re.DOTALL)


class Stored(NamedTuple):
    job: Job
    existed: bool
    """It has been there, under the id or the key that was asked for."""


class RemoteStoring(Asking):
    def schedule(
        self,
        payload: Any = None,
        *,
        queue: str = DEFAULT_QUEUE,
        at: datetime | str | None = None,
        delay: Duration | None = None,
        owner: str | None = None,
        key: str | None = None,
        if_exists: str = "keep",
        priority: int = 0,
        expires_at: datetime | str | None = None,
        max_attempts: int | None = None,
        timeout_seconds: float | None = None,
        id: str | None = None,
    ) -> Job:
        """Store a job, due at a moment, after a delay, or now. It is durable when this returns.

        With a `key` that an unfinished job of the queue has: `if_exists` keep answers that job,
        replace gives it the new time and payload. A repeated `id` answers the first job.
        """
        fields = {
            "payload": payload,
            "queue": queue,
            "at": at,
            "delay": delay,
            "owner": owner,
            "key": key,
            "if_exists": if_exists,
            "priority": priority,
            "expires_at": expires_at,
            "max_attempts": max_attempts,
            "timeout_seconds": timeout_seconds,
            "id": id,
        }
        return self.store_job(fields).job

    def store_job(self, fields: Mapping[str, Any]) -> Stored:
        """As `schedule`, with its arguments as fields; and whether the job was there before."""
        job_id = fields.get("id")
        headers = {} if job_id is not None else {"idempotency-key": uuid.uuid4().hex}
        request = Request("POST", "/jobs", encode(sent(fields)), headers, job_id=job_id or "")
        answer = self.connection.answer(request)
        body = read(self.connection, self.connection.read(answer, request), wire.Job)
        return Stored(value_of(self.connection, body, wire.Job.read), answer.status == 200)

    def schedule_many(self, items: Iterable[Mapping[str, Any]], **defaults: Any) -> Tally:
        """Store many jobs, each a mapping of `schedule`'s arguments; `defaults` fill the gaps.

        They are sent a chunk at a time, so memory does not grow with their number. A bad item
        raises, naming its position; the error says what is stored.
        """
        tally = Tally()
        for chunk in _chunks(items, defaults, tally):
            body = self.store_lines(chunk.lines)
            if body.rejected:
                raise _rejection(body.rejected[0], tally.accepted, len(chunk.lines))
            tally.accepted += body.accepted
            tally.existing += chunk.existing(body)
            if tally.accepted <= IDS_KEPT:
                tally.ids += [one for one in body.ids if one is not None]
            else:
                tally.ids.clear()
        return tally

    def store_lines(self, lines: Sequence[bytes]) -> wire.BatchReport:
        """Store one job a line of JSON, and tell what became of each. Every line must have its id,
        or repeating the request would store it twice."""
        headers = {"content-type": "application/x-ndjson"}
        request = Request("POST", "/jobs/batch", b"\n".join(lines), headers)
        return self._ask(request, wire.BatchReport)


class _Chunk:
    """Lines of JSON that are sent in one request. Each has an id, so that the request may be
    repeated: the caller's, or one made here."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self._size = 0
        self._name = uuid.uuid4().hex

    @property
    def is_full(self) -> bool:
        return len(self.lines) >= CHUNK or self._size >= CHUNK_BYTES

    def add(self, fields: dict[str, Any]) -> None:
        if fields.get("id") is None:
            fields["id"] = self._id(len(self.lines))
        line = encode(fields)
        self.lines.append(line)
        self._size += len(line)

    def existing(self, body: wire.BatchReport) -> int:
        """How many were there before. Where the first answer was lost, the second counts what the
        first request stored; such jobs have the ids that were made here."""
        others = sum(one != self._id(n) for n, one in enumerate(body.ids))
        return min(body.existing, others)

    def _id(self, position: int) -> str:
        return f"{self._name}-{position}"


def sent(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a job as they travel: `at` is called due_at there."""
    told = {name: value for name, value in fields.items() if value is not None}
    if "payload" in told:
        told["payload"] = msgspec.Raw(payloads.encode(told["payload"]))
    if "at" in told:
        told["due_at"] = moment_text(told.pop("at"), "/at")
    if "expires_at" in told:
        told["expires_at"] = moment_text(told["expires_at"], "/expires_at")
    for name in ("delay", "timeout_seconds"):
        if name in told:
            told[name] = seconds_of(told[name])
    return told


def _chunks(
    items: Iterable[Mapping[str, Any]], defaults: dict[str, Any], tally: Tally
) -> Iterator[_Chunk]:
    """As many as fit in one request at a time."""
    chunk = _Chunk()
    for item in items:
        try:
            chunk.add(_fields(item, defaults))
        except InvalidInput as problem:
            place = f"item {tally.accepted + len(chunk.lines) + 1}{problem.pointer}"
            stored = f" The {tally.accepted} before this chunk are stored."
            raise type(problem)(problem.detail + stored, place) from None
        if chunk.is_full:
            yield chunk
            chunk = _Chunk()
    if chunk.lines:
        yield chunk


def _fields(item: Mapping[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(item, Mapping):
        raise InvalidInput("must be a mapping of the fields of a job.")
    fields = {**defaults, **item}
    for name in sorted(map(str, fields.keys() - _ALLOWED)):
        known = ", ".join(FIELDS)
        raise InvalidInput(f"there is no such field; the fields of a job are {known}.", f"/{name}")
    return sent(fields)


def _rejection(rejected: wire.BatchProblem, before: int, chunk: int) -> OncueError:
    """The error for the first line that a server would not take."""
    detail, pointer = rejected.detail, ""
    if found := _PLACE.fullmatch(detail):
        pointer, detail = found.groups()
        pointer = "/at" if pointer == "/due_at" else pointer
    place = f"item {before + rejected.line}{pointer}"
    text = f"{detail} The others among the first {before + chunk} are stored."
    match rejected.status:
        case 409:
            return Conflict(f"{place}: {text}")
        case 413:
            return TooLarge(text, place)
    return InvalidInput(text, place)
