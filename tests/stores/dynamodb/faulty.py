"""DynamoDB in trouble: a boto3 client whose requests fail as those of the real service do.

What befalls which request is up to a `Plan`:

| fault | what happens |
|---|---|
| `FAIL` | a 500, or no connection, or no answer in time; nothing was done |
| `THROTTLE` | one of three errors, or a cancelled transaction; nothing was done |
| `TIMEOUT` | done, but the answer is a 500 or does not come |
| `LATE` | no answer in time; a write is done after requests that follow |
| `DELAY` | slow to arrive, or slow to answer |
| `HALF_REFUSED` | a batch comes back in part: `UnprocessedItems`, `UnprocessedKeys` |
| `HALF_DOWN` | a part of a batch of writes is done, and no answer comes |
| `SHORT` | a page with fewer items than there are, or none, and a `LastEvaluatedKey` |
| `CONFLICT` | the item is in a transaction of somebody else |
| `TORN` | between the commits of a transaction's items, others read |
| `STALE` | an index, or an eventually consistent read, answers from a while ago |

In a batch of statements, THROTTLE, CONFLICT and HALF_REFUSED may befall some of them only: these
have an error in their place of the answer, and the others are done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from oncue_bench.dynamodb import errors, statements
from oncue_bench.dynamodb.batches import chosen, handed_back, places
from oncue_bench.dynamodb.wrapped import READS, SINGLE_WRITES, WRITES, Call, WrappedClient, changed
from tests.proof.faults import Pause, slowly
from tests.proof.plan import Fault, Plan
from tests.stores.dynamodb.world import World

Hook = Callable[[Call], object]
"""Something to do at a point of a request. Calls that it makes are disturbed by faults, but have no
hooks of their own."""

ANY_REQUEST = frozenset({Fault.FAIL, Fault.THROTTLE, Fault.TIMEOUT})
BATCHES = frozenset({"batch_write_item", "batch_get_item"})
CONFLICTING = SINGLE_WRITES | {"transact_write_items", "transact_get_items", statements.METHOD}
PAGE = 10  # a short page of a query without a limit has fewer items


class FaultyClient(WrappedClient):
    """A client in trouble.

    `before` is called before each request that reads or writes items: what it does comes between
    this request and the one before. `between` is called while a transaction is half done: reads see
    some of its items as before, writes to any of them meet a conflict; TORN needs it. STALE needs a
    world with a replica, DELAY a `pause`. A late request comes after `late_calls` calls at most;
    None: when `world.arrive()` is called. Requests go through the world's client.
    """

    def __init__(
        self,
        client: Any,
        plan: Plan,
        *,
        world: World | None = None,
        before: Hook | None = None,
        between: Hook | None = None,
        pause: Pause | None = None,
        pause_seconds: float = 5.0,
        late_calls: int | None = 5,
    ) -> None:
        super().__init__(client)
        self.plan = plan
        self.world = world or World(client)
        self.before = before
        self.between = between
        self._pause = pause
        self._pause_seconds = pause_seconds
        self._late_calls = late_calls
        self._thread = threading.local()

    def another(self, plan: Plan) -> FaultyClient:
        """A client of another node: with its own faults, in the same world."""
        return FaultyClient(self.client, plan, world=self.world, late_calls=self._late_calls)

    def during(self, call: Call) -> Any:
        if call.method not in READS | WRITES:
            return self.send(call)
        self._visit(self.before, call)
        self.world.tick()
        call = self.world.renewed(call)
        return self._meet(self.plan.draw(call.method, self._possible(call)), call)

    def _visit(self, hook: Hook | None, call: Call) -> None:
        if hook and not getattr(self._thread, "visiting", False):
            self._thread.visiting = True
            try:
                hook(call)
            finally:
                self._thread.visiting = False

    def _possible(self, call: Call) -> set[Fault]:
        possible = {
            Fault.LATE: call.method in WRITES,
            Fault.DELAY: self._pause is not None,
            Fault.HALF_REFUSED: _size(call) > 1,
            Fault.HALF_DOWN: _size(call) > 1 and call.method in WRITES,
            Fault.SHORT: call.method in {"query", "scan"},
            Fault.CONFLICT: call.method in CONFLICTING,
            Fault.TORN: self.between is not None and self._mutations(call) > 1,
            Fault.STALE: self._may_lag(call),
        }
        return {fault for fault, is_possible in possible.items() if is_possible} | ANY_REQUEST

    def _may_lag(self, call: Call) -> bool:
        replica = self.world.replica
        return bool(replica and replica.behind and replica.serves(call))

    def _mutations(self, call: Call) -> int:
        if call.method != "transact_write_items":
            return 0
        return sum("ConditionCheck" not in entry for entry in call.kwargs["TransactItems"])

    def _meet(self, fault: Fault | None, call: Call) -> Any:
        if call.method == statements.METHOD and fault in self._OF_STATEMENTS:
            return self._statements(fault, call)
        match fault:
            case Fault.FAIL | Fault.THROTTLE | Fault.CONFLICT:
                raise self._refusal(fault, call)
            case Fault.TIMEOUT:
                self._done(call)
                raise self._unanswered(call)
            case Fault.LATE:
                self.world.postpone(call, self._lateness())
                raise errors.no_answer(self.client)
            case Fault.HALF_REFUSED | Fault.HALF_DOWN:
                return self._half(fault, call)
            case Fault.SHORT:
                return self._short(call)
            case Fault.TORN:
                return self._torn(call)
            case Fault.STALE:
                return self._stale(call)
            case Fault.DELAY if self._pause:
                return slowly(
                    partial(self._done, call), self.plan, self._pause, self._pause_seconds
                )
        return self._done(call)

    _OF_STATEMENTS = (Fault.THROTTLE, Fault.CONFLICT, Fault.HALF_REFUSED, Fault.HALF_DOWN)

    def _statements(self, fault: Fault, call: Call) -> Any:
        """A batch of statements, some of which go wrong, or all."""
        if fault is Fault.THROTTLE and self.plan.heads():
            raise self._refusal(fault, call)
        every = statements.places(call)
        some = self.plan.part(every) if len(every) > 1 else every
        if fault is Fault.HALF_DOWN:
            self._done(statements.chosen(call, some))
            raise self._unanswered(call)
        codes = {
            Fault.THROTTLE: statements.THROTTLES,
            Fault.CONFLICT: (statements.CONFLICT,),
            Fault.HALF_REFUSED: (statements.BROKEN,),
        }[fault]
        wrong = {at: self.plan.choice(codes) for at in some}
        return statements.in_part(call, wrong, self._done)

    def _done(self, call: Call) -> Any:
        """The request without a fault. What lags has caught up by then."""
        replica = self.world.replica
        if replica and replica.serves(call):
            replica.catch_up()
        return self.world.apply(call)

    def _refusal(self, fault: Fault, call: Call) -> Exception:
        client, method = self.client, call.method
        if fault is Fault.FAIL:
            kind = self.plan.choice([None, *errors.UNREACHED])
            return errors.no_answer(client, kind) if kind else errors.broken(client, method)
        if fault is Fault.CONFLICT and method in SINGLE_WRITES:
            return errors.conflict(client, method)
        if fault is Fault.CONFLICT:
            return self._cancelled(call, "TransactionConflict")
        if method == "transact_write_items" and self.plan.heads():
            return self._cancelled(call, "ThrottlingError")
        return errors.throttled(client, method, self.plan.choice(list(errors.THROTTLES)))

    def _cancelled(self, call: Call, code: str) -> Exception:
        """Some of the items are to blame, or all."""
        items = range(len(call.kwargs["TransactItems"]))
        guilty = self.plan.part(items) if len(items) > 1 else items
        codes = [code if place in guilty else "None" for place in items]
        return errors.cancelled(self.client, call.method, codes)

    def _unanswered(self, call: Call) -> Exception:
        kind = self.plan.choice([None, *errors.UNANSWERED])
        return (
            errors.no_answer(self.client, kind) if kind else errors.broken(self.client, call.method)
        )

    def _lateness(self) -> int | None:
        return self._late_calls and self.plan.choice(range(1, self._late_calls + 1))

    def _half(self, fault: Fault, call: Call) -> Any:
        taken = set(self.plan.part(places(call)))
        answer = self._done(chosen(call, taken))
        if fault is Fault.HALF_DOWN:
            raise self._unanswered(call)
        return handed_back(answer, chosen(call, set(places(call)) - taken))

    def _short(self, call: Call) -> Any:
        start = call.kwargs.get("ExclusiveStartKey")
        if start and self.plan.heads():
            return {"Items": [], "Count": 0, "ScannedCount": 0, "LastEvaluatedKey": start}
        most = max(2, call.kwargs.get("Limit", PAGE))
        return self._done(changed(call, Limit=self.plan.choice(range(1, most))))

    def _torn(self, call: Call) -> Any:
        with self.world.half_done(call, self.plan.part) as answer:
            self._visit(self.between, call)
        return answer

    def _stale(self, call: Call) -> Any:
        replica = self.world.replica
        assert replica
        replica.advance(self._some)
        return replica.answer(call)

    def _some(self, names: list[str]) -> list[str]:
        """Not all of them; often none."""
        return self.plan.part(names) if len(names) > 1 and self.plan.heads() else []


def _size(call: Call) -> int:
    """How many entries a batch has."""
    if call.method == statements.METHOD:
        return len(statements.places(call))
    return len(places(call)) if call.method in BATCHES else 0
