"""Taking due jobs for workers in SQLite: a claim for each job, or one record for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import compress, groupby
from operator import attrgetter, itemgetter
from typing import Any

from oncue.core.job import Claimed
from oncue.core.moment import Moment
from oncue.core.operations import OperationPages
from oncue.core.queue import Queue
from oncue.core.sharing import Taker, in_order, share_out
from oncue.stores.sqlite import rows, worker_ranges
from oncue.stores.sqlite.lines import FIRST_WAITING_LINE, Through, first_jobs
from oncue.stores.sqlite.readying import Ready

SQL = rows.load("claims")
_PAYLOAD = Claimed._fields.index("payload")
_ID, _QUEUE, _PAYLOAD_OF = attrgetter("id"), attrgetter("queue"), itemgetter(_PAYLOAD)
_ALIKE = attrgetter("epoch", "timeout_seconds")
# `claimed_columns` has n and trail in the place of the operations and their cursor.
_N, _TRAIL = map(itemgetter, (-2, -1))
_NO_OPERATIONS = ((), None)
_claimed: Callable[[Any], Claimed] = partial(tuple.__new__, Claimed)  # twice as fast as `_make`


class _Rows:
    """Makes claims of rows of `claimed_columns`. It keeps the row numbers, which claims do not
    contain, but not the rows: a batch has thousands."""

    def __init__(self, tx: rows.Tx) -> None:
        self._tx = tx
        self._read: list[Claimed] = []
        self._ns: list[int] = []
        self._may_have_operations: dict[str, int] = {}

    def claims(self, found: Sequence[Any]) -> list[Claimed]:
        """The claims of these rows, without their operations."""
        claims = [_claimed(row[:-2] + _NO_OPERATIONS) for row in found]
        self._read += claims
        self._ns += map(_N, found)
        for row in compress(found, map(_TRAIL, found)):
            self._may_have_operations[row[0]] = _N(row)
        return claims

    def ns(self, claims: Sequence[Claimed]) -> Sequence[int]:
        """The row numbers of some of the claims. To be called once all rows were read."""
        if len(claims) == len(self._ns):
            return self._ns
        return [self._n_of[one.id] for one in claims]

    @cached_property
    def _n_of(self) -> dict[str, int]:
        return dict(zip(map(_ID, self._read), self._ns, strict=True))

    def with_operations(self, claims: list[Claimed]) -> list[Claimed]:
        """The claims of one taker, with their operations."""
        if not self._may_have_operations:
            return claims
        pages = OperationPages()
        return [self._with_operations(one, pages) for one in claims]

    def _with_operations(self, claim: Claimed, pages: OperationPages) -> Claimed:
        n = self._may_have_operations.get(claim.id)
        if n is None:
            return claim
        page = rows.operation_page(self._tx, n, pages)
        return claim._replace(operations=tuple(page.items), operations_cursor=page.next)


class Taking:
    """Takes jobs for the takers of one call."""

    def __init__(
        self,
        tx: rows.Tx,
        now: Moment,
        queues: Mapping[str, Queue],
        ready: Mapping[str, Ready],
    ) -> None:
        self._tx = tx
        self._now = now
        self._queues = queues
        self._ready = ready
        self._size = 0  # of the payloads
        self._last_line = 0
        self._rows = _Rows(tx)
        self._taken: Counter[str] = Counter()
        self._claims: list[dict[str, Any]] = []  # the parameters of `claims.sql: claim`

    def take_all(self, takers: Sequence[Taker], nonce: str) -> list[list[Claimed]]:
        """Claim due jobs. The claims of each taker."""
        self._usual = takers[0]  # most of them ask for the same lease
        shares = share_out(takers, self._first)
        if len(takers) == 1 and self._is_range(takers[0], shares[0]):
            return [self._take_range(takers[0], list(shares[0]), f"{nonce}/0")]
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

    def _first(self, limit: int, reclaimed: bool) -> list[Claimed]:
        """The first due jobs of each queue, as far as it has room for them: reclaimed work, or what
        else waits."""
        found: list[Claimed] = []
        for name, ready in self._ready.items():
            lines = [line for line in ready.lines if (line < FIRST_WAITING_LINE) is reclaimed]
            most = min(limit - len(found), ready.room.most - self._taken[name])
            if not lines or most <= 0 or self._size >= rows.BATCH_BYTES:
                continue
            until = self._now + self._usual.lease_ms(self._queues[name])
            params = {"queue": name, "now": self._now, "lease_until": until}
            statement = SQL["due"]
            if ready.held is not None:
                statement = SQL["due_uncovered"]
                params = ready.held._asdict() | params  # the lease is that of the new claims
            before = len(found)
            for line, due in first_jobs(self._tx, statement, params, lines, most, _PAYLOAD):
                self._last_line = line
                self._size += sum(map(len, map(_PAYLOAD_OF, due)))
                found += self._rows.claims(due)
            self._taken[name] += len(found) - before
        return found

    def _take(self, taker: Taker, due: Sequence[Claimed], nonce: str) -> list[Claimed]:
        params = {"worker": taker.worker, "alone": len(due) == 1, "nonce": nonce}
        claims: list[Claimed] = []
        for name, group in groupby(due, key=_QUEUE):
            taken, queue = list(group), self._queues[name]
            until = self._now + taker.lease_ms(queue)
            terms = {"lease_until": until, "timeout_seconds": queue.timeout_seconds}
            self._claims.append({"ns": self._rows.ns(taken), **params, **terms})
            if taker.lease_seconds != self._usual.lease_seconds:
                taken = [one._replace(lease_until=until) for one in taken]
            claims += taken
        return self._rows.with_operations(claims)

    def _is_range(self, taker: Taker, due: Sequence[Claimed]) -> bool:
        """Whether all of these can be claimed by one record: see `worker_ranges`."""
        is_meant = taker.together and taker.is_near and len(self._queues) == 1
        if not (is_meant and worker_ranges.LEAST <= len(due) <= worker_ranges.MOST):
            return False
        [queue], [ready] = self._queues.values(), self._ready.values()
        limits = (ready.held, ready.room.bucket, queue.concurrency, queue.timeout_seconds)
        alike = set(map(_ALIKE, due))
        is_plain = limits == (None, None, None, None) and self._last_line >= FIRST_WAITING_LINE
        return is_plain and len(alike) == 1 and due[0].timeout_seconds is None

    def _take_range(self, taker: Taker, due: list[Claimed], nonce: str) -> list[Claimed]:
        [queue] = self._queues.values()
        terms = {
            "queue": queue.name,
            "dispatcher": taker.worker,
            "lease_until": self._now + taker.lease_ms(queue),
            "nonce": nonce,
            "now": self._now,
            "cutoff": self._now,
        }
        last = due[-1]
        through = Through(self._last_line, last.due_at, last.id)
        ns, ids = self._rows.ns(due), list(map(_ID, due))
        worker_ranges.open_range(self._tx, ns, ids, last.epoch, through, terms)
        return self._rows.with_operations(due)

    def _apply(self) -> None:
        """Claim what was taken, by one statement."""
        if len(self._claims) == 1:
            [params] = self._claims
            params |= {"ns": rows.numbers(params["ns"]), "now": self._now}
            self._tx.execute(SQL["claim"], params)
        elif self._claims:
            params = {"claims": rows.to_json(self._claims), "now": self._now}
            self._tx.execute(SQL["claim_each"], params)


def claimed_by(
    tx: rows.Tx, nonce: str, queues: Sequence[Queue], takers: int, now: Moment
) -> list[list[Claimed]]:
    """The jobs that a call took, by taker, as far as the claims hold. Their leases begin anew."""
    prefix = f"{nonce}/"
    params = {"prefix": prefix, "length": len(prefix), "now": now}
    worker_ranges.split(tx, "of_nonce", params)
    reading = _Rows(tx)
    held: list[list[Claimed]] = [[] for _ in range(takers)]
    for *row, its_nonce in rows.fetch(tx, SQL["claimed_by"], params):
        held[int(its_nonce.removeprefix(prefix))] += reading.claims([tuple(row)])
    return [reading.with_operations(in_order(claims, queues)) for claims in held]
