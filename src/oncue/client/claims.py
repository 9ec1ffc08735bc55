"""Working by hand, from another machine: claim jobs, then report on them with the claim's token."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from oncue.client.asking import Asking, encode, job_path, seconds_of
from oncue.client.connection import Call, Connection
from oncue.client.errors import error_of
from oncue.core import payload as payloads
from oncue.core.duration import seconds
from oncue.core.errors import InvalidInput, OncueError
from oncue.core.job import Claimed, Operation
from oncue.core.lease import Touched
from oncue.core.moment import parse
from oncue.usecases.claims import ClaimVerbs, Completion
from oncue.usecases.jobs import chunks
from oncue.wire import claims as wire
from oncue.wire.converting import read
from oncue.wire.jobs import JobOperation

ITEMS_LIMIT = 1000
ITEMS_BYTES = 1024 * 1024
_FRAME = 300  # bytes of a report beside its result and error

T = TypeVar("T")

touched_of = partial(read, Touched)


class RemoteClaim(Claimed):
    """A job that was claimed from a server. `token` is the proof of the claim; the epoch behind it
    is known to the server alone, and 0 here."""

    token: str
    attempt_timeout_seconds: float | None
    """How long the attempt may take, by the job or its queue."""


class ClaimReport(NamedTuple):
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
        lease = seconds_of(lease_seconds)
        request = claim_request(
            wait_seconds, queues=names, worker=worker, limit=limit, lease_seconds=lease
        )
        return self._ask(request, wire.Claims, claims_of)

    def token(self, claimed: Claimed) -> str:
        assert isinstance(claimed, RemoteClaim)
        return claimed.token

    def start(self, job_id: str, token: str) -> Touched:
        return self._report(job_id, "start", token=token)

    def _beat(self, job_id: str, token: str, fields: dict[str, Any]) -> Touched:
        return self._report(job_id, "heartbeat", wire.Touched, token=token, **fields)

    def _put_operation(self, job_id: str, token: str, operation: Operation) -> Operation:
        request = operation_request(job_id, token, operation)
        return self._ask(request, JobOperation, JobOperation.read)

    def complete_all(self, reports: Sequence[Completion]) -> list[OncueError | None]:
        answers: list[OncueError | None] = [None] * len(reports)
        done: dict[int, ClaimReport] = {}
        for place, (job_id, token, result) in enumerate(reports):
            try:
                body = None if result is None else payloads.encode(result, "/result")
                done[place] = ClaimReport(job_id, token, "complete", body)
            except InvalidInput as problem:
                answers[place] = problem
        settled = settle_all(self.connection, self.connection.ask, done.values())
        for place, (_, error) in zip(done, settled, strict=True):
            answers[place] = error
        return answers

    def _complete(self, job_id: str, token: str | None, result: bytes | None) -> None:
        body = None if result is None else msgspec.Raw(result)
        force = True if token is None else None
        self._report(job_id, "complete", token=token, result=body, force=force)

    def _fail(
        self, job_id: str, token: str, error: str, retryable: bool, retry_after: float | None
    ) -> None:
        more: dict[str, Any] = {"error": error, "retryable": retryable, "retry_after": retry_after}
        self._report(job_id, "fail", token=token, **more)

    def release(self, job_id: str, token: str) -> None:
        self._report(job_id, "release", token=token)

    def _report(
        self, job_id: str, verb: str, shape: type[Any] = wire.Started, **fields: Any
    ) -> Touched:
        """What the answer tells of the claim; one that ends it tells nothing."""
        # The very report that settled a claim may be repeated, so a lost answer is no trouble.
        request = Call("POST", job_path(job_id, verb), encode(fields), job_id=job_id)
        return self._ask(request, shape, touched_of)


def claims_of(body: wire.Claims) -> list[RemoteClaim]:
    return [claim_of(one) for one in body.items]


def claim_request(wait_seconds: float, **fields: Any) -> Call:
    wait_seconds = seconds(wait_seconds, "/wait_seconds")
    body = encode({**fields, "wait_seconds": wait_seconds})
    return Call("POST", "/claim", body, repeatable=False, wait_seconds=wait_seconds)


def operation_request(job_id: str, token: str, operation: Operation) -> Call:
    fields = {
        "token": token,
        "state": operation.state,
        "result": None if operation.result is None else msgspec.Raw(operation.result),
        "percent": operation.percent,
        "message": operation.message,
    }
    place = job_path(job_id, "operations", operation.name)
    return Call("PUT", place, encode(fields), job_id=job_id)


def settle_all(
    connection: Connection, ask: Callable[[Call], bytes], reports: Iterable[ClaimReport]
) -> Iterator[tuple[ClaimReport, OncueError | None]]:
    """Report the ends of claims, as many as fit in one request at a time. Each report with the
    reason why it was refused, if it was. Repeating them is harmless."""
    for part in chunks(reports, lambda report: report.size, ITEMS_LIMIT, ITEMS_BYTES):
        body = ask(Call("POST", "/settle", encode({"items": [one.fields() for one in part]})))
        refusals = answers_to(connection, body, wire.SettledItems, len(part), _refusal)
        yield from zip(part, refusals, strict=True)


def _refusal(item: wire.Settled) -> OncueError | None:
    return error_of(item.problem, item.id) if item.problem else None


def answers_to(
    connection: Connection, body: bytes, shape: type[Any], count: int, value: Callable[[Any], T]
) -> list[T]:
    """The answers to so many reports, in their order."""
    answers = connection.value(body, shape, lambda found: [value(item) for item in found.items])
    if len(answers) != count:
        raise connection.not_ours("answered for more or fewer jobs than it was told of")
    return answers
