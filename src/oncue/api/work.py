"""Pulled queues over HTTP: claim, report, settle. A claim's token is all that its reports need."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

import msgspec

from oncue import intake
from oncue.api import problem as problems
from oncue.api.guard import require
from oncue.api.problem import invalid
from oncue.api.request import Answer, Request, decoded, json_answer
from oncue.api.routing import Operation
from oncue.api.waiting import Wish
from oncue.core import token
from oncue.core.access import Scope
from oncue.core.duration import seconds
from oncue.core.errors import InvalidInput, OncueError, StoreError
from oncue.core.job import Claimed
from oncue.core.queue import check_queue_name
from oncue.ports.claims import Touched
from oncue.reporting import Completion
from oncue.wire import claims as wire
from oncue.wire.converting import written
from oncue.wire.formats import Body, States
from oncue.wire.jobs import JobOperation

if TYPE_CHECKING:
    from oncue.api.service import Service

LONGEST_WAIT_SECONDS = 300.0
FEW = 50  # claims that are written down at once; more would keep the loop from everybody else
B = TypeVar("B", bound=Body)

_claim = msgspec.json.Decoder(wire.Claim)
_claim_any = msgspec.json.Decoder(wire.ClaimAny)
_start = msgspec.json.Decoder(wire.Start)
_heartbeat = msgspec.json.Decoder(wire.Heartbeat)
_heartbeats = msgspec.json.Decoder(wire.Heartbeats)
_operation = msgspec.json.Decoder(wire.OperationReport)
_complete = msgspec.json.Decoder(wire.Complete)
_fail = msgspec.json.Decoder(wire.Fail)
_release = msgspec.json.Decoder(wire.Release)
_settlement = msgspec.json.Decoder(wire.Settle)


# -- claiming --------------------------------------------------------------------------------------


async def claim(service: Service, request: Request) -> Answer:
    request.query()
    body = decoded(await request.body(), _claim)
    return await _claimed(service, request, request.parameters, body)


async def claim_any(service: Service, request: Request) -> Answer:
    request.query()
    body = decoded(await request.body(), _claim_any)
    return await _claimed(service, request, tuple(dict.fromkeys(body.queues)), body)


async def _claimed(
    service: Service, request: Request, queues: tuple[str, ...], body: wire.Claim
) -> Answer:
    for position, queue in enumerate(queues):
        check_queue_name(queue, f"/queues/{position}")
    wait = seconds(body.wait_seconds, "/wait_seconds")
    if wait > LONGEST_WAIT_SECONDS:
        raise invalid(
            f"at most {LONGEST_WAIT_SECONDS:.0f} seconds; ask again then.", "/wait_seconds"
        )
    intake.label(body.worker, "/worker")
    wish = Wish(queues, body.worker, body.limit, intake.check_lease(body.lease_seconds))
    taken = await service.waiting.claim(wish, wait, request.gone)
    try:
        if len(taken) <= FEW:
            answer = _told_claims(service, taken)
        else:
            answer = await service.read(_told_claims, service, taken)
    except BaseException:  # the end of the server, too, cuts requests short
        service.waiting.give_back(taken)
        raise
    return answer._replace(unread=lambda: service.waiting.give_back(taken)) if taken else answer


def _told_claims(service: Service, taken: list[Claimed]) -> Answer:
    sign, policies = service.cue.token, service.cue.policies
    timeouts = {queue: policies(queue).timeout_seconds for queue in {one.queue for one in taken}}
    items = [wire.ClaimedJob.of(one, sign(one), timeouts[one.queue]) for one in taken]
    return json_answer(wire.Claims(items))


# -- reporting -------------------------------------------------------------------------------------


async def _report(
    service: Service, request: Request, decoder: msgspec.json.Decoder[B]
) -> tuple[str, B]:
    """The job and the body of a report, whose token must be one of a claim on that job. Where it
    may be left out, an administrator is believed without."""
    request.query()
    request.job_id = job_id = request.parameters[0]
    try:
        body = decoded(await request.body(), decoder)
    except problems.Problem:
        require(request.scopes, Scope.WORK)  # strangers are not told what is wrong
        raise
    proof: str | None = getattr(body, "token")  # noqa: B009
    if proof is None:
        require(request.scopes, Scope.ADMIN)
    else:
        await _prove(service, request, job_id, proof)
    return job_id, body


async def _prove(service: Service, request: Request, job_id: str, proof: str) -> None:
    """The token of a claim on this job stands for itself. Without one, only those who may work
    learn more."""
    try:
        token.epoch_of(service.cue.store.secret, job_id, proof)
    except InvalidInput:
        require(request.scopes, Scope.WORK)
        await service.read(service.cue.job, job_id)  # a job that does not exist is the first cause
        raise


async def start(service: Service, request: Request) -> Answer:
    job_id, body = await _report(service, request, _start)
    touched = await service.acue.write(service.cue.start, job_id, body.token)
    return json_answer(written(wire.Started, touched, id=job_id, state="executing"))


async def heartbeat(service: Service, request: Request) -> Answer:
    job_id, body = await _report(service, request, _heartbeat)
    touched = await service.acue.write(_beat, service, job_id, body)
    return json_answer(written(wire.Touched, touched))


def _beat(service: Service, job_id: str, body: wire.Heartbeat) -> Touched:
    return service.cue.heartbeat(
        job_id,
        body.token,
        message=body.message,
        percent=body.percent,
        lease_seconds=intake.check_lease(body.lease_seconds),
    )


async def operation(service: Service, request: Request) -> Answer:
    job_id, body = await _report(service, request, _operation)
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


# -- settling --------------------------------------------------------------------------------------


async def complete(service: Service, request: Request) -> Answer:
    """With the token of the claim; or, without one, on the word of an administrator."""
    job_id, body = await _report(service, request, _complete)
    if body.token is None:
        await service.acue.write(service.cue.complete_by_hand, job_id, body.result)
    else:
        await service.acue.complete(Completion(job_id, body.token, body.result))
    return json_answer(wire.JobState(job_id, "succeeded"))


async def fail(service: Service, request: Request) -> Answer:
    job_id, body = await _report(service, request, _fail)

    def failed() -> States:
        service.cue.fail(
            job_id,
            body.token,
            body.error,
            retryable=body.retryable,
            retry_after=body.retry_after,
        )
        return _state(service, job_id, "failed")

    return json_answer(wire.JobState(job_id, await service.acue.write(failed)))


async def release(service: Service, request: Request) -> Answer:
    job_id, body = await _report(service, request, _release)

    def released() -> States:
        service.cue.release(job_id, body.token)
        return _state(service, job_id, "scheduled")

    return json_answer(wire.JobState(job_id, await service.acue.write(released)))


def _state(service: Service, job_id: str, gone: States) -> States:
    """What the job is now; `gone` if its queue keeps no history."""
    job = service.cue.store.get(job_id)
    return gone if job is None else job.state.value


# -- many at once ----------------------------------------------------------------------------------


async def settle(service: Service, request: Request) -> Answer:
    request.query()
    body = decoded(await request.body(), _settlement)

    def all_of_them() -> list[wire.Settled]:
        answers: list[wire.Settled] = []
        for successes, run in groupby(body.items, key=_is_success):
            items = list(run)
            if successes:
                answers += _complete_all(service, items)
            else:
                answers += [_settled(service, item) for item in items]
        return answers

    return json_answer(wire.SettledItems(await service.acue.write(all_of_them)))


async def heartbeats(service: Service, request: Request) -> Answer:
    request.query()
    body = decoded(await request.body(), _heartbeats)

    def all_of_them() -> list[wire.Beaten]:
        return [_beaten(service, item) for item in body.items]

    return json_answer(wire.BeatenItems(await service.acue.write(all_of_them)))


def _is_success(item: wire.SettleItem) -> bool:
    return item.outcome == "complete"


def _complete_all(service: Service, items: list[wire.SettleItem]) -> list[wire.Settled]:
    reports = [Completion(item.id, item.token, item.result) for item in items]
    return [
        wire.Settled(item.id, "succeeded")
        if error is None
        else wire.Settled(item.id, problem=problems.of(error).written())
        for item, error in zip(items, service.cue.complete_all(reports), strict=True)
    ]


def _settled(service: Service, item: wire.SettleItem) -> wire.Settled:
    """The state of the job, or the problem of this item."""
    try:
        return wire.Settled(item.id, _settle(service, item))
    except StoreError:
        raise
    except OncueError as error:
        return wire.Settled(item.id, problem=problems.of(error).written())


def _settle(service: Service, item: wire.SettleItem) -> States:
    if item.outcome == "release":
        service.cue.release(item.id, item.token)
        return _state(service, item.id, "scheduled")
    service.cue.fail(
        item.id,
        item.token,
        item.error or "",
        retryable=item.retryable,
        retry_after=item.retry_after,
    )
    return _state(service, item.id, "failed")


def _beaten(service: Service, item: wire.HeartbeatItem) -> wire.Beaten:
    """The lease of the job, or the problem of this item."""
    try:
        return written(wire.Beaten, _beat(service, item.id, item), id=item.id)
    except StoreError:
        raise
    except OncueError as error:
        return wire.Beaten(item.id, problem=problems.of(error).written())


OPERATIONS = [
    Operation("POST", "/queues/{queue}/claim", claim, Scope.WORK, "Take due jobs of a queue"),
    Operation("POST", "/claim", claim_any, Scope.WORK, "Take due jobs of several queues"),
    Operation("POST", "/jobs/{id}/start", start, None, "Report that work has begun"),
    Operation("POST", "/jobs/{id}/heartbeat", heartbeat, None, "Report that work goes on"),
    Operation("PUT", "/jobs/{id}/operations/{name}", operation, None, "Report on one step"),
    Operation("POST", "/jobs/{id}/complete", complete, None, "Report success"),
    Operation("POST", "/jobs/{id}/fail", fail, None, "Report failure"),
    Operation("POST", "/jobs/{id}/release", release, None, "Hand a job back unharmed"),
    Operation("POST", "/settle", settle, Scope.WORK, "Report how many jobs ended"),
    Operation("POST", "/heartbeat", heartbeats, Scope.WORK, "Report that work on many goes on"),
]
