"""Requests to one DynamoDB table: in batches, with conditions, repeated when the service says so.

An item is a plain dictionary here; texts, whole numbers and bytes are the only values. Whatever the
service answers that may pass (throttling, conflicts, errors of its own, a lost connection) is tried
again with a growing, random pause, and ends as `StoreUnavailable` after `PATIENCE_SECONDS`, or
sooner if there never was a connection. A request that was repeated may find its own effect: every
item that is written under a condition has a mark of the call (`by`), and a condition that failed
because the item has it has not failed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from heapq import merge
from itertools import islice
from random import uniform
from typing import Any, TypeVar

from oncue.clock import SystemClock
from oncue.forking import now_and_after_fork
from oncue.stores.dynamodb.keys import INDEX, LAST, Key
from oncue.stores.dynamodb.refusals import (
    ConditionFailed,
    TransactionFailed,
    raise_failed_condition,
)
from oncue.stores.dynamodb.throttles import Throttles
from oncue.stores.dynamodb.trouble import explain, is_throttle, is_unreached, passes, too_long
from oncue.stores.dynamodb.wire import condition, from_wire, query_of, statement, to_wire, wire_key
from oncue.stores.dynamodb.writes import (
    Check,
    If,
    Item,
    Put,
    Remove,
    Single,
    Write,
    filled,
    mark,
    marked,
    merged,
    packed,
)

T = TypeVar("T")
R = TypeVar("R")

Client = Any
"""A boto3 client of DynamoDB, or what behaves like one."""

GET_AT_ONCE = 100
WRITE_AT_ONCE = 25
THREADS = 16
PATIENCE_SECONDS = 10.0
FIRST_PATIENCE_SECONDS = 2.0  # until a first connection: the address may be wrong
FIRST_PAUSE_SECONDS = 0.02
LONGEST_PAUSE_SECONDS = 1.0
SLOW_SECONDS = 1.0
_clock = SystemClock()
_OF_NO_TABLE = frozenset(
    {"transact_write_items", "transact_get_items", "batch_write_item", "describe_limits"}
)


class Table:
    def __init__(self, name: str, connect: Callable[[], Client]) -> None:
        """`connect` makes a client: now, and again in a forked child."""
        self.name = name
        self._connect = connect
        now_and_after_fork(self, Table._renew)

    def _renew(self) -> None:
        self.client = self._connect()
        self._thread = threading.local()
        self._pool = ThreadPoolExecutor(THREADS, "oncue-dynamodb", self._enter_pool)
        self._closing = threading.Event()
        self._patience = FIRST_PATIENCE_SECONDS
        self.throttles = Throttles(self.name)

    def close(self) -> None:
        self._closing.set()
        self._pool.shutdown()

    # Reading.

    def get(self, key: Key) -> Item | None:
        """One item, read consistently."""
        answer = self.call("get_item", Key=wire_key(key), ConsistentRead=True)
        found = answer.get("Item")
        return None if found is None else from_wire(found)

    def read(self, keys: Iterable[Key]) -> dict[Key, Item]:
        """Those of these items that there are, each read consistently."""
        parts = _batches(dict.fromkeys(keys), GET_AT_ONCE)
        found: dict[Key, Item] = {}
        for part in self.each(self._read, parts):
            found |= part
        return found

    def _read(self, keys: Sequence[Key]) -> dict[Key, Item]:
        found: dict[Key, Item] = {}
        wanted: list[Any] = [wire_key(key) for key in keys]

        def ask() -> bool:
            nonlocal wanted
            request = {self.name: {"Keys": wanted, "ConsistentRead": True}}
            answer = self.client.batch_get_item(RequestItems=request)
            for one in answer["Responses"].get(self.name, ()):
                item = from_wire(one)
                found[Key(item["pk"], item["sk"])] = item
            wanted = answer.get("UnprocessedKeys", {}).get(self.name, {}).get("Keys", [])
            self.throttles.note(bool(wanted))
            return not wanted

        self._until(ask)
        return found

    def read_at_once(self, groups: Sequence[Sequence[Key]]) -> dict[Key, Item]:
        """As `read`, but the items of each group as they were at one moment."""
        found: dict[Key, Item] = {}
        for keys in filled(groups):
            asked = [{"Get": {"TableName": self.name, "Key": wire_key(key)}} for key in keys]
            answer = self.call("transact_get_items", TransactItems=asked)
            pairs = zip(keys, answer["Responses"], strict=True)
            found |= {key: from_wire(one["Item"]) for key, one in pairs if "Item" in one}
        return found

    def query(
        self,
        pk: str,
        above: str = "",
        upto: str = LAST,
        *,
        limit: int | None = None,
        backwards: bool = False,
        lately: bool = False,
    ) -> Iterator[Item]:
        """Items of a partition, read consistently: above < sk ≤ upto. At most `limit` of them are
        read, and no more than those. `lately`: as they were a moment ago, for half the price."""
        how = {"ConsistentRead": not lately}
        return self._query(pk, ("pk", "sk"), above, upto, limit, backwards, **how)

    def page(self, pk: str, above: str, upto: str, limit: int) -> tuple[list[Item], bool]:
        """As `query`, but only what one answer holds; and whether there may be more. It is empty
        only if there is nothing."""
        if above >= upto:
            return [], False
        asked = query_of(pk, ("pk", "sk"), above, upto)
        while True:
            answer = self.call("query", **asked, Limit=limit, ConsistentRead=True)
            more = "LastEvaluatedKey" in answer
            if answer["Items"] or not more:
                return [from_wire(item) for item in answer["Items"]], more
            asked["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def look(
        self, look: str, above: str = "", upto: str = LAST, *, limit: int | None = None
    ) -> Iterator[str]:
        """Entries of one part of the index, which may be late: above < at ≤ upto."""
        items = self._query(look, ("look", "at"), above, upto, limit, False, IndexName=INDEX)
        return (item["at"] for item in items)

    def first_entries(self, looks: Iterable[str], above: str, upto: str, limit: int) -> list[str]:
        """The first entries of some parts of the index, merged in their order."""
        parts = self.each(lambda look: list(self.look(look, above, upto, limit=limit)), looks)
        return list(islice(merge(*parts), limit))

    def _query(
        self,
        pk: str,
        names: tuple[str, str],
        above: str,
        upto: str,
        limit: int | None,
        backwards: bool,
        **more: Any,
    ) -> Iterator[Item]:
        asked = query_of(pk, names, above, upto) | more | {"ScanIndexForward": not backwards}
        left = limit if above < upto else 0  # the service refuses bounds with nothing in between
        while left is None or left > 0:
            if left is not None:
                asked["Limit"] = left
            answer = self.call("query", **asked)
            yield from map(from_wire, answer["Items"])
            if left is not None:
                left -= len(answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            asked["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def scan(self, after: Key | None, limit: int) -> tuple[list[Item], Key | None]:
        """A page of the whole table, and where to go on. Only a dump reads so."""
        start = {} if after is None else {"ExclusiveStartKey": wire_key(after)}
        answer = self.call("scan", Limit=limit, ConsistentRead=True, **start)
        last = answer.get("LastEvaluatedKey")
        end = None if last is None else Key(last["pk"]["S"], last["sk"]["S"])
        return [from_wire(item) for item in answer["Items"]], end

    # Writing.

    def put(self, item: Item, only_if: If | None = None) -> bool:
        """Write an item. False: the condition does not hold."""
        if only_if is not None:
            item = {**item, "by": mark()}
        return self._write_one("put_item", {"Item": to_wire(item)}, only_if, item)

    def remove(self, key: Key, only_if: If | None = None) -> bool:
        return self._write_one("delete_item", {"Key": wire_key(key)}, only_if, None)

    def _write_one(
        self, method: str, asked: dict[str, Any], only_if: If | None, wanted: Item | None
    ) -> bool:
        try:
            self.call(method, **asked, **condition(only_if))
        except ConditionFailed as failed:
            return failed.old == wanted
        return True

    def write_each(self, writes: Sequence[Single]) -> list[bool]:
        """Write and remove items, each on its own and under its own condition (`ABSENT` or `has`);
        whether each was."""
        parts = self.each(self._write_each, _batches(marked(writes), WRITE_AT_ONCE))
        return [done for part in parts for done in part]

    def _write_each(self, writes: Sequence[Single]) -> list[bool]:
        match writes:
            case [Put(item, only_if)]:
                return [self.put(item, only_if)]
            case [Remove(key, only_if)]:
                return [self.remove(key, only_if)]
        done: dict[int, bool] = {}

        def ask() -> bool:
            left = [place for place in range(len(writes)) if place not in done]
            statements = [statement(self.name, writes[place]) for place in left]
            answer = self.client.batch_execute_statement(Statements=statements)
            trouble: list[Any] = []
            for place, one in zip(left, answer["Responses"], strict=True):
                error = one.get("Error")
                if error is None:
                    done[place] = True
                elif error["Code"] in ("DuplicateItem", "ConditionalCheckFailed"):
                    done[place] = self._is_as(writes[place], error.get("Item"))
                else:
                    trouble.append(error)
            if not all(map(passes, trouble)):
                raise explain(self.name, trouble[0])
            self.throttles.note(any(map(is_throttle, trouble)))
            return not trouble

        self._until(ask)
        return [done[place] for place in range(len(writes))]

    def _is_as(self, write: Single, old: Mapping[str, Any] | None) -> bool:
        """Whether an item is already as it was to be."""
        found = self.get(write.key) if old is None else from_wire(old)
        return found == (write.item if isinstance(write, Put) else None)

    def write(self, puts: Iterable[Item] = (), removed: Iterable[Key] = ()) -> None:
        """Write and remove items without conditions. Each key is named once."""
        requests: list[Any] = [{"PutRequest": {"Item": to_wire(item)}} for item in puts]
        requests += [{"DeleteRequest": {"Key": wire_key(key)}} for key in dict.fromkeys(removed)]
        self.write_requests(requests)

    def write_requests(self, requests: Iterable[Any]) -> None:
        """Such as `BatchWriteItem` takes."""
        self.each(self._write_some, _batches(requests, WRITE_AT_ONCE))

    def _write_some(self, requests: Sequence[Any]) -> None:
        wanted = list(requests)

        def ask() -> bool:
            nonlocal wanted
            answer = self.client.batch_write_item(RequestItems={self.name: wanted})
            wanted = answer.get("UnprocessedItems", {}).get(self.name, [])
            self.throttles.note(bool(wanted))
            return not wanted

        self._until(ask)

    def apply(self, groups: Sequence[Sequence[Write]]) -> list[bool]:
        """Do each group as a whole or not at all; whether each was done. Groups share requests."""
        alone = [at for at, group in enumerate(groups) if len(group) == 1]
        singles = [groups[at][0] for at in alone]
        done = dict(zip(alone, self.write_each(singles), strict=True))  # type: ignore[arg-type]
        rest = {at: group for at, group in enumerate(groups) if len(group) > 1}
        for part in self.each(self._transact_some, packed(rest)):
            done |= part
        return [done[at] for at in range(len(groups))]

    def _transact_some(self, groups: Mapping[int, Sequence[Write]]) -> dict[int, bool]:
        """All of these groups in one transaction, without those whose conditions do not hold. Where
        one condition stands for several groups, each is tried by itself."""
        done: dict[int, bool] = {}
        left = dict(groups)
        while left:
            writes, owners = merged(left)
            failed = {at for place in self.transact(writes) for at in owners[place]}
            if not failed:
                return done | dict.fromkeys(left, True)
            if len(left) == 1:
                return done | dict.fromkeys(left, False)
            if any(len(owners[place]) > 1 for place in range(len(writes))):
                for at, group in left.items():
                    done |= self._transact_some({at: group})
                return done
            done |= dict.fromkeys(failed, False)
            left = {at: group for at, group in left.items() if at not in failed}
        return done

    def transact(self, writes: Sequence[Write]) -> list[int]:
        """Do all of it, or nothing: the positions whose condition does not hold; [] means done."""
        writes = marked(writes)
        asked = [self._part(write) for write in writes]
        try:
            # With the same token for every repetition, the service does it once.
            self.call("transact_write_items", TransactItems=asked, ClientRequestToken=mark())
        except TransactionFailed as failed:
            return [] if _was_done(writes, failed.old) else sorted(failed.old)
        return []

    def _part(self, write: Write) -> dict[str, Any]:
        asked: dict[str, Any] = {"TableName": self.name, **condition(write.only_if)}
        match write:
            case Put(item):
                return {"Put": asked | {"Item": to_wire(item)}}
            case Remove(key):
                return {"Delete": asked | {"Key": wire_key(key)}}
            case Check(key):
                return {"ConditionCheck": asked | {"Key": wire_key(key)}}

    # Asking, and asking again.

    def each(self, ask: Callable[[T], R], parts: Iterable[T]) -> list[R]:
        """The answers for all parts, asked at the same time."""
        every = list(parts)
        # A thread of the pool that waited for others of the pool might wait for ever.
        if len(every) < 2 or getattr(self._thread, "is_of_pool", False):
            return [ask(part) for part in every]
        return list(self._pool.map(ask, every))

    def _enter_pool(self) -> None:
        self._thread.is_of_pool = True

    def call(self, method: str, **asked: Any) -> Any:
        """One request. Raises `ConditionFailed` or `TransactionFailed` as the service does."""
        if method not in _OF_NO_TABLE:
            asked["TableName"] = self.name
        answer: Any = None

        def ask() -> bool:
            nonlocal answer
            answer = getattr(self.client, method)(**asked)
            return True

        self._until(ask)
        return answer

    def _until(self, ask: Callable[[], bool]) -> None:
        """Ask until it says that all is done. A part that was left out is trouble that passes."""
        pause, waited = FIRST_PAUSE_SECONDS, 0.0
        while True:
            error: Exception | None = None
            began = _clock.monotonic()
            try:
                if ask():
                    return
            except Exception as problem:
                error = problem
                raise_failed_condition(problem)
                if not passes(problem):
                    raise explain(self.name, problem) from problem
                self.throttles.note(is_throttle(problem))
            finally:
                if not is_unreached(error):
                    self._patience = PATIENCE_SECONDS
            if _clock.monotonic() - began >= SLOW_SECONDS:  # it was not refused: nobody answered
                waited += _clock.monotonic() - began
            rest = uniform(pause / 2, pause)
            if waited + rest > self._patience or self._closing.is_set():
                raise too_long(self.name, error) from error
            self._closing.wait(rest)
            waited += rest
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def _was_done(writes: Sequence[Write], old: Mapping[int, Mapping[str, Any] | None]) -> bool:
    """Whether a transaction whose answer got lost was done after all: an item has the mark of this
    very call. (The service recognises a repetition for ten minutes; this is for later.)"""
    refused = [(writes[at], item) for at, item in old.items() if item is not None]
    return any(isinstance(one, Put) and from_wire(item) == one.item for one, item in refused)


def _batches(every: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(every)
    while part := list(islice(rest, size)):
        yield part
