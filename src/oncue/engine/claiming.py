"""Claims whose answer may get lost on the way."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import NamedTuple

from oncue.core.errors import StoreUnavailable
from oncue.core.job import Claimed
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.core.sharing import Taker
from oncue.ports.claims import ClaimStore


class _Call(NamedTuple):
    queues: Sequence[Queue]
    takers: Sequence[Taker]
    nonce: str


class Claiming:
    """The claims of one caller, one at a time. A call of which it is not known whether it was
    applied is repeated before any other, as it was: otherwise the jobs that it took would wait for
    the end of their leases."""

    def __init__(self, store: ClaimStore) -> None:
        self._store = store
        self._lost: _Call | None = None

    @property
    def has_lost(self) -> bool:
        """Whether the next claim repeats one that was made before."""
        return self._lost is not None

    def claim(
        self, queues: Sequence[Queue], takers: Sequence[Taker], now: Moment
    ) -> list[list[Claimed]]:
        """See `ClaimStore.claim`. After trouble: the answer to the call that met it."""
        lost, self._lost = self._lost, None
        call = lost or _Call(queues, takers, secrets.token_urlsafe(9))
        try:
            return self._store.claim(
                call.queues, call.takers, now, nonce=call.nonce, again=lost is not None
            )
        except StoreUnavailable:
            self._lost = call
            raise

    def taken(self, now: Moment) -> list[Claimed]:
        """The jobs that the call took whose answer got lost. Nothing is taken anew."""
        if self._lost is None:
            return []
        queues, takers, nonce = self._lost
        no_more = [taker._replace(limit=0) for taker in takers]
        shares = self._store.claim(queues, no_more, now, nonce=nonce, again=True)
        return [claimed for share in shares for claimed in share]
