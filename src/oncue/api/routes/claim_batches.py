"""Reports on many claims in one request: each is applied or refused by itself."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from oncue.api import problems
from oncue.api.request import HttpAnswer, Request, json_answer
from oncue.api.routes.claims import beat, fail, release
from oncue.api.routing import Routes
from oncue.core.access import Scope
from oncue.core.errors import OncueError, StoreError
from oncue.usecases.claims import Completion
from oncue.wire import claims as wire
from oncue.wire.converting import written

if TYPE_CHECKING:
    from oncue.api.app import Service

A = TypeVar("A", wire.Settled, wire.Beaten)
R = TypeVar("R", wire.SettleItem, wire.HeartbeatItem)

routes = Routes("Workers")


@routes.add("POST /settle", Scope.WORK, wire.SettledItems, wire.Settle)
async def settle_jobs(service: Service, request: Request) -> HttpAnswer:
    """Report the end of many jobs.

    Up to 1,000 jobs in one request. Each is applied or refused separately.
    """
    body = await request.decoded(wire.Settle)

    def all_of_them() -> list[wire.Settled]:
        answers: list[wire.Settled] = []
        for successes, run in groupby(body.items, key=lambda item: item.outcome == "complete"):
            if successes:
                answers += _complete_all(service, list(run))
            else:
                answers += [_applied(wire.Settled, _settle, service, item) for item in run]
        return answers

    return json_answer(wire.SettledItems(await service.acue.write(all_of_them)))


@routes.add("POST /heartbeat", Scope.WORK, wire.BeatenItems, wire.Heartbeats)
async def heartbeat_jobs(service: Service, request: Request) -> HttpAnswer:
    """Send heartbeats for many jobs.

    Up to 1,000 jobs in one request. Each is applied or refused separately.
    """
    body = await request.decoded(wire.Heartbeats)

    def all_of_them() -> list[wire.Beaten]:
        return [_applied(wire.Beaten, _beat, service, item) for item in body.items]

    return json_answer(wire.BeatenItems(await service.acue.write(all_of_them)))


def _complete_all(service: Service, items: list[wire.SettleItem]) -> list[wire.Settled]:
    reports = [Completion(item.id, item.token, item.result) for item in items]
    return [
        wire.Settled(item.id, "succeeded") if error is None else _refused(wire.Settled, item, error)
        for item, error in zip(items, service.cue.complete_all(reports), strict=True)
    ]


def _settle(service: Service, item: wire.SettleItem) -> wire.Settled:
    settle = release if item.outcome == "release" else fail
    return wire.Settled(item.id, settle(service, item.id, item))


def _beat(service: Service, item: wire.HeartbeatItem) -> wire.Beaten:
    return written(wire.Beaten, beat(service, item.id, item), id=item.id)


def _applied(shape: type[A], apply: Callable[[Service, R], A], service: Service, item: R) -> A:
    """The answer to this item, or its problem."""
    try:
        return apply(service, item)
    except StoreError:
        raise
    except OncueError as error:
        return _refused(shape, item, error)


def _refused(shape: type[A], item: R, error: OncueError) -> A:
    return shape(id=item.id, problem=problems.of(error).fields)
