"""How a worker ends its claims: many at a time, and again while the store is away."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from oncue import payload as payloads
from oncue.core.errors import InvalidInput, NonRetryable, StoreUnavailable
from oncue.core.job import Claimed
from oncue.core.lifecycle import Verb
from oncue.engine.alarm import Alarm
from oncue.ports.claims import Settlement
from oncue.ports.clock import Clock
from oncue.ports.store import Store
from oncue.reporting import dropped

T = TypeVar("T")
INSIST_SECONDS = 300.0
PAUSE_SECONDS = 0.25

logger = logging.getLogger("oncue.worker")


class Settling:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._alarm = Alarm(clock)  # never stopped: the last results are written while stopping

    def settle(self, settlements: Sequence[Settlement]) -> None:
        """End claims. What came too late is logged; what is asked to end, ends cancelled."""
        if not settlements:
            return
        refused = self._store.settle(settlements, self._clock.now())
        late = []
        for position, answer in refused.items():
            if answer.reason == "cancel requested":
                late.append(dropped(settlements[position]))
            else:
                logger.warning(
                    "job %s: the result came too late (%s)", settlements[position].id, answer.reason
                )
        self.settle(late)

    def insist(self, write: Callable[[], T], in_vain: Callable[[], bool] = lambda: False) -> T:
        """Write, and again while the store is away: the work is done and should not be lost. Not
        for ever, nor once it is `in_vain`."""
        ends = self._clock.monotonic() + INSIST_SECONDS
        troubled = False
        while True:
            try:
                return write()
            except StoreUnavailable as trouble:
                if self._clock.monotonic() >= ends or in_vain():
                    raise
                if not troubled:
                    logger.warning("writing results: %s (trying again)", trouble)
                troubled = True
                self._alarm.pause(PAUSE_SECONDS)


def release(claim: Claimed, *, keep: bool) -> Settlement:
    """What was claimed but not begun goes back; the attempt does not count."""
    return Settlement(claim.id, claim.epoch, Verb.RELEASE, keep=keep)


def bodies(results: Any, count: int) -> list[bytes | None]:
    """The stored results of a batch handler: None for all, or one for each."""
    if results is None:
        return [None] * count
    if not isinstance(results, list | tuple) or len(results) != count:
        raise NonRetryable("a batch handler returns None, or a list with one result for each job.")
    return [None if one is None else body(one) for one in results]


def body(result: object) -> bytes:
    """A handler's result as it is stored. What cannot be, now, could not be next time either."""
    try:
        return payloads.encode(result, "/result")
    except InvalidInput as problem:
        raise NonRetryable(f"the result {problem.detail}") from None
