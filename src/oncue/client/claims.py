"""Working by hand, from another machine: claim jobs, then report on them with the claim's token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from oncue.client.asking import Asking, encode, seconds_of, value_of
from oncue.client.claim_batches import Report, answers_to, parts, reports_request
from oncue.client.connection import Request, path
from oncue.client.errors import error_of
from oncue.core import payload as payloads
from oncue.core.duration import Duration, seconds
from oncue.core.errors import InvalidInput, OncueError
from oncue.core.job import Claimed, Operation
from oncue.core.moment import parse
from oncue.ports.claims import Touched
from oncue.usecases.claims import Completion
from oncue.wire import claims as wire
from oncue.wire.converting import read
from oncue.wire.jobs import JobOperation

T = TypeVar("T")


class RemoteClaim(Claimed):
    """A job that was claimed from a server. `token` is the proof of the claim; the epoch behind it
    is known to the server alone, and 0 here."""

    token: str
    attempt_timeout_seconds: float | None
    """How long the attempt may take, by the job or its queue."""


def claim_of(body: wire.ClaimedJob) -> RemoteClaim:
    """A claimed job was last changed by its claim: so `updated_at` is when that was, by the
    server's clock, as `lease_until` is."""
    claimed = RemoteClaim(
        *read(
            Claimed,
            body,
            attempt_base=0,
            epoch=0,
            claimed_at=parse(body.updated_at),
        )
    )
    claimed.token = body.token
    claimed.attempt_timeout_seconds = body.attempt_timeout_seconds
    return claimed


class RemoteReporting(Asking):
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
        request = claim_request(
            [queues] if isinstance(queues, str) else list(queues),
            worker,
            limit=limit,
            lease_seconds=lease_seconds,
            wait_seconds=wait_seconds,
        )
        items = self._ask(request, wire.Claims).items
        return [value_of(self.connection, one, claim_of) for one in items]

    def token(self, claimed: Claimed) -> str:
        """The proof of a claim that this client made."""
        assert isinstance(claimed, RemoteClaim)
        return claimed.token

    def start(self, job_id: str, token: str) -> Touched:
        """Report that work on a claimed job has begun."""
        body = self._report(job_id, "start", wire.Started, token=token)
        return value_of(self.connection, body, touched_of)

    def heartbeat(
        self,
        job_id: str,
        token: str,
        *,
        message: str | None = None,
        percent: float | None = None,
        lease_seconds: float | None = None,
    ) -> Touched:
        """Report that work goes on; renews the lease, and tells whether a cancel was requested."""
        body = self._report(
            job_id,
            "heartbeat",
            wire.Touched,
            token=token,
            message=message,
            percent=percent,
            lease_seconds=seconds_of(lease_seconds),
        )
        return value_of(self.connection, body, touched_of)

    def operation(
        self,
        job_id: str,
        token: str,
        name: str,
        state: str,
        *,
        result: Any = None,
        percent: float | None = None,
        message: str | None = None,
    ) -> Operation:
        """Report on one named step. Until it succeeds, its result is replaced by later ones, and a
        report without one keeps it; the result of a success is final."""
        stored = payloads.operation_result(state, result)
        request = operation_request(job_id, token, name, state, percent, message, stored)
        return self._ask_for(request, JobOperation, JobOperation.read)

    def complete(self, job_id: str, token: str, result: Any = None) -> None:
        """Report success."""
        body = None if result is None else msgspec.Raw(payloads.encode(result, "/result"))
        self._report(job_id, "complete", wire.JobState, token=token, result=body)

    def complete_all(self, reports: Sequence[Completion]) -> list[OncueError | None]:
        """Report many successes at once. For each, in order, why it was refused, if it was."""
        answers: list[OncueError | None] = [None] * len(reports)
        done: dict[int, Report] = {}
        for place, (job_id, token, result) in enumerate(reports):
            try:
                done[place] = Report(job_id, token, "complete", _stored(result))
            except InvalidInput as problem:
                answers[place] = problem
        items: list[wire.Settled] = []
        for part in parts(list(done.values())):
            request = reports_request("/settle", [report.fields() for report in part])
            body = self.connection.ask(request)
            items += answers_to(self.connection, body, wire.SettledItems, len(part)).items
        for (place, report), item in zip(done.items(), items, strict=True):
            if item.problem:
                answers[place] = error_of(item.problem, report.id)
        return answers

    def complete_by_hand(self, job_id: str, result: Any = None) -> None:
        """Record success on somebody's word; takes the scope `admin`."""
        body = None if result is None else msgspec.Raw(payloads.encode(result, "/result"))
        self._report(job_id, "complete", wire.JobState, token=None, result=body)

    def fail(
        self,
        job_id: str,
        token: str,
        error: str,
        *,
        retryable: bool = True,
        retry_after: Duration | None = None,
    ) -> None:
        """Report failure: due again after a pause if attempts remain, else failed."""
        self._report(
            job_id,
            "fail",
            wire.JobState,
            token=token,
            error=error,
            retryable=retryable,
            retry_after=seconds_of(retry_after),
        )

    def release(self, job_id: str, token: str) -> None:
        """Hand a job back unharmed; the attempt does not count."""
        self._report(job_id, "release", wire.JobState, token=token)

    def _report(self, job_id: str, verb: str, kind: type[T], **fields: Any) -> T:
        # The very report that settled a claim may be repeated, so a lost answer is no trouble.
        request = Request("POST", path("jobs", job_id, verb), encode(fields), job_id=job_id)
        return self._ask(request, kind)


def touched_of(body: wire.Touched | wire.Started | wire.Beaten) -> Touched:
    return read(Touched, body)


def _stored(result: Any) -> bytes | None:
    return None if result is None else payloads.encode(result, "/result")


def claim_request(
    queues: Sequence[str],
    worker: str,
    *,
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


def operation_request(
    job_id: str,
    token: str,
    name: str,
    state: str,
    percent: float | None,
    message: str | None,
    result: bytes | None,
) -> Request:
    fields = {
        "token": token,
        "state": state,
        "result": None if result is None else msgspec.Raw(result),
        "percent": percent,
        "message": message,
    }
    place = path("jobs", job_id, "operations", name)
    return Request("PUT", place, encode(fields), job_id=job_id)
