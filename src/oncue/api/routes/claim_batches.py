"""Reports on many claims in one request: each is applied or refused by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from oncue.api import problems
from oncue.api.request import HttpAnswer, Request, json_answer
from oncue.api.routes.claims import FEW, told_by
from oncue.api.routing import Routes
from oncue.core.access import Scope
from oncue.core.errors import InvalidInput, OncueError, StoreError
from oncue.core.fencing import Settlement
from oncue.core.lease import Touch, Touched
from oncue.core.lifecycle import State
from oncue.usecases import reporting
from oncue.usecases.reporting import raised, sifted
from oncue.wire import claims as wire
from oncue.wire.converting import written

if TYPE_CHECKING:
    from oncue.api.app import Service

A = TypeVar("A")
Q = TypeVar("Q")
R = TypeVar("R", wire.SettleItem, wire.HeartbeatItem)

routes = Routes("Workers")


@routes.add("POST /settle", Scope.WORK, wire.SettledItems, wire.Settle)
async def settle_jobs(service: Service, request: Request) -> HttpAnswer:
    """Report the end of many jobs.

    Up to 1,000 jobs in one request. Each is applied or refused separately.
    """
    body = await request.decoded(wire.Settle)

    def ready(item: wire.SettleItem) -> Settlement:
        cue = service.cue
        if item.outcome == "complete":
            return reporting.completion(cue, item.id, item.token, item.result)
        if item.outcome == "release":
            return reporting.release(cue, item.id, item.token)
        if item.error is None:
            raise InvalidInput("a failure needs an error: say what went wrong.", "/error")
        return reporting.failure(
            cue,
            item.id,
            item.token,
            item.error,
            retryable=item.retryable,
            retry_after=item.retry_after,
        )

    def settled(item: wire.SettleItem, answer: State | OncueError) -> wire.Settled:
        if isinstance(answer, OncueError):
            return wire.Settled(item.id, problem=problems.of(answer).fields)
        return wire.Settled(item.id, answer.value)

    ends, refused = await _ready(service, body.items, ready)
    answers = _answers(len(body.items), refused, await service.acue.settle(ends))
    return json_answer(wire.SettledItems(list(map(settled, body.items, answers))))


@routes.add("POST /heartbeat", Scope.WORK, wire.BeatenItems, wire.Heartbeats)
async def heartbeat_jobs(service: Service, request: Request) -> HttpAnswer:
    """Send heartbeats for many jobs.

    Up to 1,000 jobs in one request. Each is applied or refused separately.
    """
    body = await request.decoded(wire.Heartbeats)

    def ready(item: wire.HeartbeatItem) -> Touch:
        return reporting.heartbeat(service.cue, item.id, item.token, **told_by(item))

    def beaten(item: wire.HeartbeatItem, answer: Touched | OncueError) -> wire.Beaten:
        if isinstance(answer, OncueError):
            return wire.Beaten(item.id, problem=problems.of(answer).fields)
        return written(wire.Beaten, answer, id=item.id)

    beats, refused = await _ready(service, body.items, ready)
    answers = _answers(len(body.items), refused, await service.acue.touch(beats))
    return json_answer(wire.BeatenItems(list(map(beaten, body.items, answers))))


async def _ready(
    service: Service, items: list[R], ready: Callable[[R], Q]
) -> tuple[list[Q], dict[int, OncueError]]:
    """Every token is checked, which would keep the loop from other requests if there are many."""
    if len(items) <= FEW:
        return sifted(items, ready)
    return await service.read(sifted, items, ready)


def _answers(
    count: int, refused: dict[int, OncueError], applied: Sequence[A | BaseException]
) -> list[A | OncueError]:
    """The answer to each item. Trouble with the store is that of the whole request."""
    left = iter(applied)
    answers = [refused[at] if at in refused else next(left) for at in range(count)]
    return [
        one if isinstance(one, OncueError) and not isinstance(one, StoreError) else raised(one)
        for one in answers
    ]
