"""Working by hand, from another machine: claim jobs, then report on them with the claim's token."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from oncue.client.asking import Asking, encode, seconds_of
from oncue.client.connection import Connection, Request, path
from oncue.client.errors import error_of
from oncue.core import payload as payloads
from oncue.core.duration import seconds
from oncue.core.errors import InvalidInput, OncueError
from oncue.core.job import Claimed, Operation
from oncue.core.moment import parse
from oncue.ports.claims import Touched
from oncue.usecases.claims import ClaimVerbs, Completion
from oncue.usecases.jobs import chunks
from oncue.wire import claims as wire
from oncue.wire.converting import read
from oncue.wire.jobs import JobOperation

ITEMS_LIMIT = 1000
ITEMS_BYTES = 1024 * 1024
_FRAME = 300  # bytes of a report beside its result and error

S = TypeVar("S")
T = TypeVar("T")

touched_of = partial(read, Touched)


class RemoteClaim(Claimed):
    """A job that was claimed from a server. `token` is the proof of the claim; the epoch behind it
    is known to the server alone, and 0 here."""

    token: str
    attempt_timeout_seconds: float | None
    """How long the attempt may take, by the job or its queue."""


class Report(NamedTuple):
    """How a claim ended: `outcome` is complete, fail or release."""

    id: str
    token: str
    outcome: str
    result: bytes | None = None
    error: str | None = None
    retryable: bool | None = None

    @property
    def size(self) -> int:
        return _FRAME + len(self.result or b"") + len(msgspec.json.encode(self.error))

    def fields(self) -> dict[str, Any]:
        fields = {name: value for name, value in self._asdict().items() if value is not None}
        if self.result is not None:
            fields["result"] = msgspec.Raw(self.result)
        return fields


def claim_of(body: wire.ClaimedJob) -> RemoteClaim:
    """A claimed job was last changed by its claim: so `updated_at` is when that was, by the
    server's clock, as `lease_until` is."""
    claimed_at = parse(body.updated_at)
    claimed = RemoteClaim(*read(Claimed, body, attempt_base=0, epoch=0, claimed_at=claimed_at))
    claimed.token = body.token
    claimed.attempt_timeout_seconds = body.attempt_timeout_seconds
    return claimed


class RemoteClaims(Asking, ClaimVerbs):
    def claim(
        self,
        queues: str | Sequence[str],
        worker: str,
        *,
        limit: int = 1,
        lease_seconds: float | None = None,
        wait_seconds: float = 0.0,
    ) -> list[RemoteClaim]:
        """Take due jobs of pulled queues, waiting up to `wait_seconds` for the first. Each has its
        `token`. Never asked twice: if the answer is lost, what was claimed is taken back when its
        lease ends."""
        names = [queues] if isinstance(queues, str) else list(queues)
        request = claim_request(names, worker, limit, lease_seconds, wait_seconds)
        return self._ask(request, wire.Claims, claims_of)

    def token(self, claimed: Claimed) -> str:
        assert isinstance(claimed, RemoteClaim)
        return claimed.token

    def start(self, job_id: str, token: str) -> Touched:
        return self._report(job_id, "start", token, wire.Started, touched_of)

    def _beat(self, job_id: str, token: str, fields: dict[str, Any]) -> Touched:
        return self._report(job_id, "heartbeat", token, wire.Touched, touched_of, **fields)

    def _put_operation(self, job_id: str, token: str, operation: Operation) -> Operation:
        request = operation_request(job_id, token, operation)
        return self._ask(request, JobOperation, JobOperation.read)

    def complete_all(self, reports: Sequence[Completion]) -> list[OncueError | None]:
        answers: list[OncueError | None] = [None] * len(reports)
        done: dict[int, Report] = {}
        for place, (job_id, token, result) in enumerate(reports):
            try:
                body = None if result is None else payloads.encode(result, "/result")
                done[place] = Report(job_id, token, "complete", body)
            except InvalidInput as problem:
                answers[place] = problem
        settled: list[OncueError | None] = []
        for part in parts(done.values()):
            body = self.connection.ask(settle_request(part))
            settled += settled_of(self.connection, body, len(part))
        for place, error in zip(done, settled, strict=True):
            answers[place] = error
        return answers

    def _complete(self, job_id: str, token: str | None, result: bytes | None) -> None:
        body = None if result is None else msgspec.Raw(result)
        self._report(job_id, "complete", token, wire.JobState, _state, result=body)

    def _fail(
        self, job_id: str, token: str, error: str, retryable: bool, retry_after: float | None
    ) -> None:
        more = {"error": error, "retryable": retryable, "retry_after": retry_after}
        self._report(job_id, "fail", token, wire.JobState, _state, **more)

    def release(self, job_id: str, token: str) -> None:
        self._report(job_id, "release", token, wire.JobState, _state)

    def _report(
        self,
        job_id: str,
        verb: str,
        token: str | None,
        shape: type[S],
        value: Callable[[S], T],
        **fields: Any,
    ) -> T:
        # The very report that settled a claim may be repeated, so a lost answer is no trouble.
        body = encode({"token": token, **fields})
        request = Request("POST", path("jobs", job_id, verb), body, job_id=job_id)
        return self._ask(request, shape, value)


def _state(body: wire.JobState) -> str:
    return body.state


def claims_of(body: wire.Claims) -> list[RemoteClaim]:
    return [claim_of(one) for one in body.items]


def claim_request(
    queues: Sequence[str],
    worker: str,
    limit: int,
    lease_seconds: float | None = None,
    wait_seconds: float = 0.0,
) -> Request:
    wait_seconds = seconds(wait_seconds, "/wait_seconds")
    fields = {
        "queues": queues,
        "worker": worker,
        "limit": limit,
        "lease_seconds": seconds_of(lease_seconds),
        "wait_seconds": wait_seconds,
    }
    return Request("POST", "/claim", encode(fields), repeatable=False, wait_seconds=wait_seconds)


def operation_request(job_id: str, token: str, operation: Operation) -> Request:
    fields = {
        "token": token,
        "state": operation.state,
        "result": None if operation.result is None else msgspec.Raw(operation.result),
        "percent": operation.percent,
        "message": operation.message,
    }
    place = path("jobs", job_id, "operations", operation.name)
    return Request("PUT", place, encode(fields), job_id=job_id)


def parts(reports: Iterable[Report]) -> Iterator[list[Report]]:
    """As many as fit in one request at a time."""
    return chunks(reports, lambda report: report.size, ITEMS_LIMIT, ITEMS_BYTES)


def settle_request(reports: Sequence[Report]) -> Request:
    """Many reports at once. Repeating it is harmless."""
    return Request("POST", "/settle", encode({"items": [report.fields() for report in reports]}))


def settled_of(connection: Connection, body: bytes, count: int) -> list[OncueError | None]:
    """For each report, in order, why it was refused, if it was."""
    return answers_to(
        connection,
        body,
        wire.SettledItems,
        count,
        lambda item: error_of(item.problem, item.id) if item.problem else None,
    )


def answers_to(
    connection: Connection, body: bytes, shape: type[Any], count: int, value: Callable[[Any], T]
) -> list[T]:
    """The answers to so many reports, in their order."""
    answers = connection.value(body, shape, lambda found: [value(item) for item in found.items])
    if len(answers) != count:
        raise connection.not_ours("answered for more or fewer jobs than it was told of")
    return answers
