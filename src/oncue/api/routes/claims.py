"""Pulled queues over HTTP: claim, report, settle. A claim's token is all that its reports need."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from oncue.aio import ClaimRequest
from oncue.api import problems
from oncue.api.problems import invalid
from oncue.api.request import HttpAnswer, Request, json_answer
from oncue.api.routing import Routes
from oncue.core import token
from oncue.core.access import Scope
from oncue.core.duration import seconds
from oncue.core.errors import InvalidInput
from oncue.core.job import Claimed
from oncue.core.queue import check_queue_name
from oncue.usecases.claims import claimed_operations
from oncue.usecases.reporting import taker
from oncue.wire import claims as wire
from oncue.wire.converting import written
from oncue.wire.jobs import JobOperation, Operations

if TYPE_CHECKING:
    from oncue.api.app import Service

LONGEST_WAIT_SECONDS = 300.0
FEW = 100  # claims that are encoded on the loop; more would keep it from other requests


class Report(Protocol):
    """The body of a report."""

    @property
    def token(self) -> str | None: ...


R = TypeVar("R", bound=Report)

routes = Routes("Workers")


# -- claiming --------------------------------------------------------------------------------------


@routes.add("POST /queues/{queue}/claim", Scope.WORK, wire.Claims, wire.Claim)
async def claim_jobs(service: Service, request: Request) -> HttpAnswer:
    """Take due jobs of a queue.

    Takes due jobs under a lease, for work on them to be reported with their tokens. With
    `wait_seconds` the answer waits for the first due job, at most so long. Nothing to do is an
    empty list. Jobs that were reclaimed from a lost claim are handed out first, one at a time.
    If the client has left before it is answered, the jobs are released at once.
    """
    body = await request.decoded(wire.Claim)
    return await _claimed(service, request, request.parameters, body)


@routes.add("POST /claim", Scope.WORK, wire.Claims, wire.ClaimAny)
async def claim_jobs_of_queues(service: Service, request: Request) -> HttpAnswer:
    """Take due jobs of several queues.

    As for one queue; the queues take turns.
    """
    body = await request.decoded(wire.ClaimAny)
    return await _claimed(service, request, tuple(dict.fromkeys(body.queues)), body)


async def _claimed(
    service: Service, request: Request, queues: tuple[str, ...], body: wire.Claim
) -> HttpAnswer:
    for position, queue in enumerate(queues):
        check_queue_name(queue, f"/queues/{position}")
    wait = seconds(body.wait_seconds, "/wait_seconds")
    if wait > LONGEST_WAIT_SECONDS:
        raise invalid(
            f"at most {LONGEST_WAIT_SECONDS:.0f} seconds; ask again then.", "/wait_seconds"
        )
    wanted = ClaimRequest(queues, taker(body.worker, body.limit, body.lease_seconds))
    wait = min(wait, request.seconds_left(service.clock))
    taken = await service.waiting.claim(wanted, wait, request.gone)
    try:
        few = len(taken) <= FEW
        answer = _encoded(service, taken) if few else await service.read(_encoded, service, taken)
    except BaseException:  # the end of the server, too, cuts requests short
        service.waiting.give_back(taken)
        raise
    return answer._replace(unread=lambda: service.waiting.give_back(taken)) if taken else answer


def _encoded(service: Service, taken: list[Claimed]) -> HttpAnswer:
    secret, policies = service.cue.store.secret, service.cue.policies
    timeouts = {queue: policies(queue).timeout_seconds for queue in {one.queue for one in taken}}
    shape = wire.ClaimedJob.of
    items = [
        shape(one, token.sign(secret, one.id, one.epoch), timeouts[one.queue]) for one in taken
    ]
    return json_answer(wire.Claims(items))


# -- reporting -------------------------------------------------------------------------------------


_add = partial(routes.add, scope=None, problems=(404, 409), claim=True)


async def _report(service: Service, request: Request, shape: type[R]) -> tuple[str, R]:
    """The job and the body of a report, whose token must be one of a claim on that job. Where the
    token may be left out, `force` and the scope `admin` are needed instead."""
    job_id = request.subject
    try:
        body = await request.decoded(shape)
    except problems.HttpProblem:
        await service.guard.require(request, Scope.WORK)  # an unknown caller learns no details
        raise
    if body.token is None:
        is_forced = bool(getattr(body, "force", False))
        await service.guard.require(request, Scope.ADMIN if is_forced else Scope.WORK)
        if not is_forced:
            raise problems.invalid(
                'the token of the claim is required; or, with the scope admin, "force": true.',
                "/token",
            )
    else:
        await _prove(service, request, job_id, body.token)
    return job_id, body


async def _prove(service: Service, request: Request, job_id: str, proof: str) -> None:
    """A token of a claim on this job is enough. Without one, only callers with the scope `work`
    learn more."""
    try:
        token.epoch_of(service.cue.store.secret, job_id, proof)
    except InvalidInput:
        await service.guard.require(request, Scope.WORK)
        await service.read(service.cue.job, job_id)  # a job that does not exist is the first cause
        raise


@_add("POST /jobs/{id}/start", answers=wire.Started, body=wire.Start)
async def start_job(service: Service, request: Request) -> HttpAnswer:
    """Report that work has begun.

    Optional: any other report implies it.
    """
    job_id, body = await _report(service, request, wire.Start)
    touched = await service.acue.start(job_id, body.token)
    return json_answer(written(wire.Started, touched, id=job_id, state="executing"))


@_add("POST /jobs/{id}/heartbeat", answers=wire.Touched, body=wire.Heartbeat)
async def heartbeat_job(service: Service, request: Request) -> HttpAnswer:
    """Send a heartbeat.

    Renews the lease. Send one every third of a lease, and stop working when `cancel_requested` is
    true or the answer is a problem.
    """
    job_id, body = await _report(service, request, wire.Heartbeat)
    touched = await service.acue.heartbeat(job_id, body.token, **told_by(body))
    return json_answer(written(wire.Touched, touched))


def told_by(body: wire.Heartbeat) -> dict[str, Any]:
    return {name: getattr(body, name) for name in ("message", "percent", "lease_seconds")}


@_add("PUT /jobs/{id}/operations/{name}", answers=JobOperation, body=wire.OperationReport)
async def report_operation(service: Service, request: Request) -> HttpAnswer:
    """Report on one step.

    A step that has succeeded is not done again by the next attempt, which is given its result with
    the claim. Another result than the first is refused. The result of a step that has not succeeded
    is kept until a later report replaces it, and the next attempt is given it.
    """
    job_id, body = await _report(service, request, wire.OperationReport)
    stored = await service.acue.write(
        service.cue.operation,
        job_id,
        body.token,
        request.parameters[1],
        body.state,
        result=body.result,
        percent=body.percent,
        message=body.message,
    )
    return json_answer(written(JobOperation, stored))


@_add("POST /jobs/{id}/operations", answers=Operations, body=wire.ReadOperations)
async def read_operations(service: Service, request: Request) -> HttpAnswer:
    """Read the operations of a claimed job.

    For the worker that holds the claim, if the claim was answered with an `operations_cursor`:
    there were more operations than the answer had room for. `GET` lists them for others.
    """
    job_id, body = await _report(service, request, wire.ReadOperations)
    token, cursor = body.token, body.cursor
    found = await service.read(claimed_operations, service.cue, job_id, token, cursor)
    return json_answer(Operations.of(found))


# -- settling --------------------------------------------------------------------------------------


@_add("POST /jobs/{id}/complete", answers=wire.JobState, body=wire.Complete)
async def complete_job(service: Service, request: Request) -> HttpAnswer:
    """Report success.

    With the token of the claim; or with `"force": true` and an access token of scope `admin`, for
    the current claim.
    """
    job_id, body = await _report(service, request, wire.Complete)
    if body.token is None:
        await service.acue.write(service.cue.complete_by_hand, job_id, body.result)
    else:
        await service.acue.complete(job_id, body.token, body.result)
    return json_answer(wire.JobState(job_id, "succeeded"))


@_add("POST /jobs/{id}/fail", answers=wire.JobState, body=wire.Fail)
async def fail_job(service: Service, request: Request) -> HttpAnswer:
    """Report failure.

    Due again after a pause while attempts remain, else failed. `retry_after` replaces the queue's
    back-off.
    """
    job_id, body = await _report(service, request, wire.Fail)
    fields = {"retryable": body.retryable, "retry_after": body.retry_after}
    state = await service.acue.fail(job_id, body.token, body.error, **fields)
    return json_answer(wire.JobState(job_id, state.value))


@_add("POST /jobs/{id}/release", answers=wire.JobState, body=wire.Release)
async def release_job(service: Service, request: Request) -> HttpAnswer:
    """Release a job.

    For a clean shutdown: due again at once, the attempt does not count.
    """
    job_id, body = await _report(service, request, wire.Release)
    state = await service.acue.release(job_id, body.token)
    return json_answer(wire.JobState(job_id, state.value))
