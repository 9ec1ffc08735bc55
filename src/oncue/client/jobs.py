"""Jobs at a server: store them so that repeating a request stores nothing twice, look, change."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import msgspec

from oncue.client.asking import Asking, encode, job_path, moment_text, seconds_of
from oncue.client.connection import AnswerLost, Call, query
from oncue.core import ids
from oncue.core import payload as payloads
from oncue.core.bulk import BulkVerb
from oncue.core.cursor import MOST_ITEMS, Cursor
from oncue.core.errors import Conflict, InvalidInput, OncueError, TooLarge
from oncue.core.explain import Explanation
from oncue.core.job import History, Job, JobFilter, JobPage
from oncue.core.lifecycle import LIVE, State
from oncue.core.moment import render
from oncue.core.operations import history_with
from oncue.ports.clock import Clock
from oncue.usecases import intake
from oncue.usecases.jobs import JobVerbs
from oncue.usecases.outbox import refuse_connection
from oncue.usecases.storing import Stored, StoredJobs
from oncue.wire import jobs as wire
from oncue.wire.converting import read

SENT_AT_ONCE = 1000  # a server describes no more refusals than that in one answer
_LINES = {"content-type": "application/x-ndjson"}
_PLACE = re.compile(r"(/\S*): (.*)", re.DOTALL)
_TAKEN_OR_DONE = LIVE | {State.SUCCEEDED}
_DONE = {
    BulkVerb.CANCEL: {State.CANCELLED},
    BulkVerb.RUN: _TAKEN_OR_DONE,
    BulkVerb.RETRY: _TAKEN_OR_DONE | {State.SCHEDULED},
}
"""The states of a job to which this was done."""


class SentJob(NamedTuple):
    """A job as a line of JSON. It names its id, so that the line may be sent again."""

    text: bytes
    made_id: str | None
    """The id, if it was made here."""
    has_at: bool
    """Whether its due time was given as `at`."""


class RemoteJobs(Asking, JobVerbs[SentJob]):
    clock: Clock

    def store_job(self, fields: Mapping[str, Any], connection: object = None) -> Stored:
        refuse_connection(connection)
        job_id = fields.get("id")
        headers = {} if job_id is not None else {"idempotency-key": uuid.uuid4().hex}
        request = Call("POST", "/jobs", encode(_sent(fields)), headers, job_id=job_id or "")
        answer = self.connection.answer(request)
        with _as_given(fields):
            body = self.connection.read(answer, request)
        job = self.connection.value(body, wire.Job, wire.Job.read)
        return Stored(job, answer.status == 200)

    def ready(self, fields: Mapping[str, Any]) -> SentJob:
        sent, has_at = _sent(fields), fields.get("at") is not None
        if "id" in sent:
            return SentJob(encode(sent), None, has_at)
        now = self.clock.now()
        sent["id"] = f"r{ids.serial(now)}"
        return SentJob(encode(sent), sent["id"], has_at)

    def _size(self, job: SentJob) -> int:
        return len(job.text)

    def store_jobs(self, jobs: Sequence[SentJob], connection: object = None) -> StoredJobs:
        refuse_connection(connection)
        stored: list[str | None] = []
        existing = 0
        refused: dict[int, OncueError] = {}
        for start in range(0, len(jobs), SENT_AT_ONCE):
            part = jobs[start : start + SENT_AT_ONCE]
            text = b"\n".join(job.text for job in part)
            body = self._ask(Call("POST", "/jobs/batch", text, _LINES), wire.BatchReport)
            # Where an answer was lost, the next one counts as existing what the first request
            # stored. Such jobs have the ids that were made here.
            others = sum(one != job.made_id for one, job in zip(body.ids, part, strict=True))
            existing += min(body.existing, others)
            for one in body.rejected:
                refused[start + one.line - 1] = _refusal(one, part[one.line - 1].has_at)
            stored += body.ids
        return StoredJobs(stored, existing, refused)

    def job(self, job_id: str) -> Job:
        return self._ask(_about(job_id), wire.JobWithHistory, wire.Job.read)

    def history(self, job_id: str, after: Cursor | None = None) -> History:
        if after is None:
            return self._ask(_about(job_id), wire.JobWithHistory, wire.JobWithHistory.history)
        place = job_path(job_id, "operations") + query({"cursor": after, "limit": MOST_ITEMS})
        request = Call("GET", place, job_id=job_id)
        return history_with(self._ask(request, wire.Operations, wire.Operations.read))

    def page(self, wanted: JobFilter, after: Cursor | None = None, limit: int = 50) -> JobPage:
        fields = {**filter_fields(wanted), "limit": limit, "cursor": after}
        return self._ask(
            Call("GET", "/jobs" + query(fields)),
            wire.Jobs,
            lambda body: JobPage([one.read() for one in body.items], body.next_cursor),
        )

    def explain(self, job_id: str) -> Explanation:
        return self._ask(_about(job_id, "explain"), wire.Explanation, partial(read, Explanation))

    def _amend(
        self, job_id: str, due: Mapping[str, Any], priority: int | None, payload: bytes | None
    ) -> Job:
        body = None if payload is None else msgspec.Raw(payload)
        fields = {**_sent(due), "priority": priority, "payload": body}
        request = Call("PATCH", job_path(job_id), encode(fields), job_id=job_id)
        with _as_given(due):
            return self._ask(request, wire.Job, wire.Job.read)

    def _change(self, job_id: str, verb: BulkVerb, running: bool = False) -> Job:
        """A second request would be refused because of the first, so if the answer is lost, look
        whether the change was made before asking again."""
        if verb is BulkVerb.CANCEL:
            place = job_path(job_id) + query({"running": "true" if running else None})
            request = Call("DELETE", place, repeatable=False, job_id=job_id)
        else:
            request = Call("POST", job_path(job_id, verb), repeatable=False, job_id=job_id)
        try:
            return self._ask(request, wire.Job, wire.Job.read)
        except AnswerLost:
            job = self.job(job_id)
            if job.state in _DONE[verb] or (running and job.cancel_requested):
                return job
            return self._ask(request, wire.Job, wire.Job.read)


def filter_fields(wanted: JobFilter) -> dict[str, Any]:
    """The fields of a filter as they travel."""
    fields = asdict(wanted)
    for name in ("due_after", "due_before"):
        fields[name] = None if fields[name] is None else render(fields[name])
    return fields


def _sent(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a job as they travel: `at` is called due_at there."""
    if unknown := fields.keys() - intake.ALLOWED:
        raise intake.unknown_field(unknown)
    sent = {name: value for name, value in fields.items() if value is not None}
    if "payload" in sent:
        sent["payload"] = msgspec.Raw(payloads.encode(sent["payload"]))
    for name in sent.keys() & intake.MOMENTS:
        sent[name] = moment_text(sent[name], f"/{name}")
    if "at" in sent:
        if "due_at" in sent:
            raise intake.at_twice()
        sent["due_at"] = sent.pop("at")
    for name in ("delay", "timeout_seconds"):
        sent[name] = seconds_of(sent.get(name))
    return sent


@contextmanager
def _as_given(fields: Mapping[str, Any]) -> Iterator[None]:
    """Problems name the field that the caller gave: a server calls `at` due_at."""
    try:
        yield
    except InvalidInput as problem:
        if problem.pointer != "/due_at" or fields.get("at") is None:
            raise
        raise type(problem)(problem.detail, "/at") from None


def _refusal(rejected: wire.BatchProblem, has_at: bool) -> OncueError:
    """Why a server did not take a line."""
    detail, pointer = rejected.detail, ""
    if found := _PLACE.fullmatch(detail):
        pointer, detail = found.groups()
        pointer = "/at" if has_at and pointer == "/due_at" else pointer
    if rejected.status == 409:
        return Conflict(detail)
    return (TooLarge if rejected.status == 413 else InvalidInput)(detail, pointer)


def _about(job_id: str, *more: str) -> Call:
    return Call("GET", job_path(job_id, *more), job_id=job_id)
