"""What the clients of one table have in common when it is in trouble: requests under way."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from botocore.exceptions import ClientError

from oncue_bench.dynamodb import errors, statements
from oncue_bench.dynamodb.requests import Item, Tables, Write, name_of
from oncue_bench.dynamodb.wrapped import Call, changed
from tests.stores.dynamodb.replica import Replica

TOKEN_SECONDS = 600  # for so long the service knows a transaction that it has done

Image = tuple[Write, Item | None, Item | None]
"""A write, and its item before and after."""


class World:
    """Clients that share a table share a world.

    `now` gives seconds, by which client tokens expire; without it, the server decides. `replica` is
    what lags behind; without it, nothing does.
    """

    def __init__(
        self,
        client: Any,
        *,
        now: Callable[[], float] | None = None,
        replica: Replica | None = None,
    ) -> None:
        self.client = client
        self.tables = Tables(client)
        self.replica = replica
        self._now = now
        self._tokens: dict[str, tuple[float, str]] = {}
        self._late: list[tuple[int | None, Call]] = []
        self._torn: set[str] = set()  # items of transactions that are half done
        self._writing: Counter[str] = Counter()  # items of other requests under way
        self._lock = threading.Lock()

    def apply(self, call: Call) -> Any:
        """Do as the request says, and let the replica know. Whoever meets a transaction that is
        half done is refused."""
        names = [_held(write) for write in self.tables.writes(call)]
        if call.method == "transact_get_items":
            names = [_held(_of_get(entry)) for entry in call.kwargs["TransactItems"]]
        with self._lock:
            met = {at for at, name in enumerate(names) if name in self._torn}
            if call.method == statements.METHOD and met:
                names = [name for at, name in enumerate(names) if at not in met]
            else:
                self._refuse(call, names, self._torn)
            self._writing.update(names)
        try:
            if call.method == statements.METHOD:
                return statements.in_part(call, dict.fromkeys(met, statements.CONFLICT), self._do)
            return self._do(call)
        finally:
            with self._lock:
                self._writing.subtract(names)

    # Requests that arrive late

    def postpone(self, call: Call, calls: int | None) -> None:
        """The request arrives before the n-th call from here; None: when told to."""
        with self._lock:
            self._late.append((calls, call))

    def tick(self) -> None:
        """A call is about to be made."""
        with self._lock:
            counted = [(n if n is None else n - 1, call) for n, call in self._late]
            self._late = [(n, call) for n, call in counted if n != 0]
        self._send(call for n, call in counted if n == 0)

    def arrive(self) -> None:
        """Every request that is late arrives now. Nobody hears what became of it."""
        with self._lock:
            late, self._late = self._late, []
        self._send(call for _, call in late)

    def _send(self, calls: Iterable[Call]) -> None:
        for call in calls:
            with suppress(ClientError):
                self.apply(call)

    # Client tokens

    def renewed(self, call: Call) -> Call:
        """A transaction whose token has expired is a new one to the server."""
        token = call.kwargs.get("ClientRequestToken")
        if self._now is None or token is None:
            return call
        now = self._now()
        with self._lock:
            since, sent = self._tokens.get(token, (now, token))
            if now - since >= TOKEN_SECONDS:
                since, sent = now, str(uuid.uuid4())
            self._tokens[token] = since, sent
        return changed(call, ClientRequestToken=sent)

    # Transactions that are seen half done

    @contextmanager
    def half_done(
        self, call: Call, some: Callable[[Sequence[Image]], Sequence[Image]]
    ) -> Iterator[Any]:
        """The transaction is done, but within the block some of its items are as before."""
        writes = [write for write in self.tables.writes(call) if write.verb != "check"]
        with self._holding(call, [_held(write) for write in writes]):
            before = [self.tables.item(write.table, write.key) for write in writes]
            answer = self._do(call)
            after = [self.tables.item(write.table, write.key) for write in writes]
            behind = some(list(zip(writes, before, after, strict=True)))
            for write, old, _ in behind:
                self._overwrite(write, old)
            try:
                yield answer
            finally:
                for write, _, new in behind:
                    self._overwrite(write, new)

    @contextmanager
    def _holding(self, call: Call, names: list[str]) -> Iterator[None]:
        with self._lock:
            self._refuse(call, names, self._torn | set(+self._writing))
            self._torn |= set(names)
        try:
            yield
        finally:
            with self._lock:
                self._torn -= set(names)

    def _refuse(self, call: Call, names: list[str], held: set[str]) -> None:
        met = [name in held for name in names]
        if not any(met):
            return
        if call.method == "batch_write_item":  # its caller tries again
            raise errors.throttled(self.client, call.method)
        if "transact" not in call.method:
            raise errors.conflict(self.client, call.method)
        codes = ["TransactionConflict" if one else "None" for one in met]
        raise errors.cancelled(self.client, call.method, codes)

    # The table

    def _do(self, call: Call) -> Any:
        answer = getattr(self.client, call.method)(**call.kwargs)
        for write in self.tables.writes(call) if self.replica else ():
            self._note(write)
        return answer

    def _overwrite(self, write: Write, item: Item | None) -> None:
        if item is None:
            self.client.delete_item(TableName=write.table, Key=write.key)
        else:
            self.client.put_item(TableName=write.table, Item=item)
        self._note(write)

    def _note(self, write: Write) -> None:
        if self.replica and write.verb != "check" and write.table == self.replica.table:
            self.replica.note(write.key)


def _held(write: Write) -> str:
    return f"{write.table} {name_of(write.key)}"


def _of_get(entry: Item) -> Write:
    return Write("check", entry["Get"]["TableName"], entry["Get"]["Key"])
