"""What one claim of workers takes in SQLite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

from oncue.core.job import Claimed
from oncue.core.moment import Moment
from oncue.core.operations import OperationPages
from oncue.core.queue import Queue
from oncue.core.sharing import Taker, in_order, share_out
from oncue.stores.sqlite import rows, worker_ranges
from oncue.stores.sqlite.lines import FIRST_WAITING_LINE, first_jobs
from oncue.stores.sqlite.readying import Ready

SQL = rows.load("claims")
_PAYLOAD = Claimed._fields.index("payload")
_QUEUE = itemgetter(Claimed._fields.index("queue"))
_TIMEOUT = Claimed._fields.index("timeout_seconds")
_ALIKE = itemgetter(Claimed._fields.index("epoch"), _TIMEOUT)
_ID = itemgetter(Claimed._fields.index("id"))
# `claimed_columns` has n and trail in the place of the operations and their cursor.
_N = Claimed._fields.index("operations")
_TRAIL, _REST = _N + 1, _N + 2
_NO_OPERATIONS = ((), None)
_claimed: Callable[[Any], Claimed] = partial(tuple.__new__, Claimed)  # twice as fast as `_make`


class Taking:
    """What one call takes. The rows are those of `claimed_columns`."""

    def __init__(
        self,
        tx: rows.Tx,
        now: Moment,
        queues: Mapping[str, Queue],
        ready: Mapping[str, Ready],
        lease_seconds: float | None,
    ) -> None:
        """`lease_seconds`: what most of the takers ask for."""
        self._tx = tx
        self._now = now
        self._queues = queues
        self._ready = ready
        self._lease_seconds = lease_seconds
        self._size = 0  # of the payloads
        self._last_line = 0
        self._taken: Counter[str] = Counter()
        self._claims: list[dict[str, Any]] = []  # the parameters of `claims.sql: claim`

    def take_all(self, takers: Sequence[Taker], nonce: str) -> list[list[Claimed]]:
        """The claims of each of them."""
        shares = share_out(takers, self._first)
        if len(takers) == 1 and self._is_range(takers[0], shares[0]):
            return [self._take_range(takers[0], shares[0], f"{nonce}/0")]
        taken = [
            self._take(taker, due, f"{nonce}/{place}") if due else []
            for place, (taker, due) in enumerate(zip(takers, shares, strict=True))
        ]
        self._apply()
        return taken

    def spend(self) -> list[str]:
        """Note how many were taken; the queues they were taken from."""
        taken = {name: count for name, count in self._taken.items() if count}
        for name, count in taken.items():
            self._ready[name].spend(self._tx, name, count)
        return list(taken)

    def _first(self, limit: int, reclaimed: bool) -> list[Any]:
        """The first due jobs of each queue, as far as it has room for them: reclaimed work, or what
        else waits."""
        found: list[Any] = []
        for name, ready in self._ready.items():
            lines = [line for line in ready.lines if (line < FIRST_WAITING_LINE) is reclaimed]
            most = min(limit - len(found), ready.room.most - self._taken[name])
            if not lines or most <= 0 or self._size >= rows.BATCH_BYTES:
                continue
            until = self._lease_until(self._queues[name], self._lease_seconds)
            params = {"queue": name, "now": self._now, "lease_until": until}
            statement = SQL["due"]
            if ready.held is not None:
                statement = SQL["due_uncovered"]
                params = ready.held._asdict() | params  # the lease is that of the new claims
            due, self._last_line = first_jobs(self._tx, statement, params, lines, most, _PAYLOAD)
            self._taken[name] += len(due)
            self._size += sum(map(len, map(itemgetter(_PAYLOAD), due)))
            found += due
        return found

    def _take(self, taker: Taker, due: Sequence[Any], nonce: str) -> list[Claimed]:
        params = {"worker": taker.worker, "alone": len(due) == 1, "nonce": nonce}
        claims: list[Claimed] = []
        for name, group in groupby(due, key=_QUEUE):
            jobs, queue = list(group), self._queues[name]
            until = self._lease_until(queue, taker.lease_seconds)
            terms = {"lease_until": until, "timeout_seconds": queue.timeout_seconds}
            self._claims.append({"ns": [row[_N] for row in jobs], **params, **terms})
            taken = _claims(self._tx, jobs)
            if taker.lease_seconds != self._lease_seconds:
                taken = [one._replace(lease_until=until) for one in taken]
            claims += taken
        return claims

    def _is_range(self, taker: Taker, due: Sequence[Any]) -> bool:
        """Whether all of these can be claimed by one record: see `worker_ranges`."""
        is_meant = taker.together and taker.is_near and len(self._queues) == 1
        if len(due) < worker_ranges.LEAST or not is_meant:
            return False
        [queue], [ready] = self._queues.values(), self._ready.values()
        limits = (ready.held, ready.room.bucket, queue.concurrency, queue.timeout_seconds)
        alike = set(map(_ALIKE, due))
        is_plain = limits == (None, None, None, None) and self._last_line >= FIRST_WAITING_LINE
        return is_plain and len(alike) == 1 and due[0][_TIMEOUT] is None

    def _take_range(self, taker: Taker, due: Sequence[Any], nonce: str) -> list[Claimed]:
        [queue] = self._queues.values()
        terms = {
            "queue": queue.name,
            "dispatcher": taker.worker,
            "lease_until": self._lease_until(queue, taker.lease_seconds),
            "nonce": nonce,
            "now": self._now,
            "cutoff": self._now,
        }
        claims = _claims(self._tx, due)
        last = claims[-1]
        through = worker_ranges.Through(self._last_line, last.due_at, last.id)
        ns, ids = list(map(itemgetter(_N), due)), list(map(_ID, due))
        worker_ranges.open_range(self._tx, ns, ids, last.epoch, through, terms)
        return claims

    def _apply(self) -> None:
        """Claim what was taken, by one statement."""
        if len(self._claims) == 1:
            [params] = self._claims
            params |= {"ns": rows.numbers(params["ns"]), "now": self._now}
            self._tx.execute(SQL["claim"], params)
        elif self._claims:
            params = {"claims": rows.to_json(self._claims), "now": self._now}
            self._tx.execute(SQL["claim_each"], params)

    def _lease_until(self, queue: Queue, lease_seconds: float | None) -> Moment:
        seconds = queue.lease_seconds if lease_seconds is None else lease_seconds
        return self._now + round(seconds * 1000)


def _claims(tx: rows.Tx, found: Sequence[Any]) -> list[Claimed]:
    pages = OperationPages()
    return [
        _with_operations(tx, row, pages)
        if row[_TRAIL]
        else _claimed(row[:_N] + _NO_OPERATIONS + row[_REST:])
        for row in found
    ]


def _with_operations(tx: rows.Tx, row: Any, pages: OperationPages) -> Claimed:
    page = rows.operation_page(tx, row[_N], pages)
    return Claimed._make((*row[:_N], tuple(page.items), page.next, *row[_REST:]))


def claimed_by(
    tx: rows.Tx, nonce: str, queues: Sequence[Queue], takers: int, now: Moment
) -> list[list[Claimed]]:
    """What a call took, by taker, as far as the claims hold. Their leases begin anew."""
    prefix = f"{nonce}/"
    params = {"prefix": prefix, "length": len(prefix), "now": now}
    worker_ranges.split_all(tx, "of_nonce", params)
    found = rows.fetch(tx, SQL["claimed_by"], params)
    held: list[list[Claimed]] = [[] for _ in range(takers)]
    for claimed, [*_, its_nonce] in zip(_claims(tx, [r[:-1] for r in found]), found, strict=True):
        held[int(its_nonce.removeprefix(prefix))].append(claimed)
    return [in_order(claims, queues) for claims in held]
