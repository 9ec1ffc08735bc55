"""Reports on many claims in one request: each is applied or refused by itself."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from oncue.api import problems as problems
from oncue.api.request import Answer, Request, json_answer
from oncue.api.routes.claims import beat, state_of
from oncue.api.routing import Routes
from oncue.core.access import Scope
from oncue.core.errors import OncueError, StoreError
from oncue.usecases.claims import Completion
from oncue.wire import claims as wire
from oncue.wire.converting import written
from oncue.wire.formats import States

if TYPE_CHECKING:
    from oncue.api.app import Service

routes = Routes("Workers")


@routes.add("POST /settle", Scope.WORK, wire.SettledItems, wire.Settle)
async def settle_jobs(service: Service, request: Request) -> Answer:
    """Report how many jobs ended.

    Up to 1,000 ends in one request. Each is applied or refused by itself.
    """
    body = await request.decoded(wire.Settle)

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


@routes.add("POST /heartbeat", Scope.WORK, wire.BeatenItems, wire.Heartbeats)
async def heartbeat_jobs(service: Service, request: Request) -> Answer:
    """Report that work on many goes on.

    Up to 1,000 signs of life in one request. Each is applied or refused by itself.
    """
    body = await request.decoded(wire.Heartbeats)

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
        else wire.Settled(item.id, problem=problems.of(error).written)
        for item, error in zip(items, service.cue.complete_all(reports), strict=True)
    ]


def _settled(service: Service, item: wire.SettleItem) -> wire.Settled:
    """The state of the job, or the problem of this item."""
    try:
        return wire.Settled(item.id, _settle(service, item))
    except StoreError:
        raise
    except OncueError as error:
        return wire.Settled(item.id, problem=problems.of(error).written)


def _settle(service: Service, item: wire.SettleItem) -> States:
    if item.outcome == "release":
        service.cue.release(item.id, item.token)
        return state_of(service, item.id, "scheduled")
    service.cue.fail(
        item.id,
        item.token,
        item.error or "",
        retryable=item.retryable,
        retry_after=item.retry_after,
    )
    return state_of(service, item.id, "failed")


def _beaten(service: Service, item: wire.HeartbeatItem) -> wire.Beaten:
    """The lease of the job, or the problem of this item."""
    try:
        return written(wire.Beaten, beat(service, item.id, item), id=item.id)
    except StoreError:
        raise
    except OncueError as error:
        return wire.Beaten(item.id, problem=problems.of(error).written)
