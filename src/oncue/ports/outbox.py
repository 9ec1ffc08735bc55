"""The outbox: jobs that are stored, and completed, in a transaction of the caller. Few stores have
one: it is their attribute `outbox`, and no part of the port of stores.

`connection` is what the caller uses for its own tables; which kinds are accepted, the store says.
Nothing here begins, commits or rolls back the caller's transaction, or changes a setting of its
session. Nothing is repeated either: errors of the connection reach the caller as they are. Others
are told of new work by the commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from oncue.core.fencing import Refused
from oncue.core.job import NewJob
from oncue.core.moment import Moment
from oncue.ports.jobs import Clash


class Outbox(Protocol):
    """The methods that end in `_async` take connections for asyncio, the others do not."""

    def insert(
        self, connection: object, jobs: Sequence[NewJob], now: Moment
    ) -> Mapping[int, Clash]:
        """As `JobStore.insert`. What clashes leaves the transaction usable."""

    async def insert_async(
        self, connection: object, jobs: Sequence[NewJob], now: Moment
    ) -> Mapping[int, Clash]: ...

    def complete(
        self, connection: object, job_id: str, epoch: int, result: bytes | None, now: Moment
    ) -> Refused | None:
        """Complete the job of a claim, as `ClaimStore.settle` does. The answer says why not; then
        nothing was changed."""

    async def complete_async(
        self, connection: object, job_id: str, epoch: int, result: bytes | None, now: Moment
    ) -> Refused | None: ...

    def is_completed(self, job_id: str, epoch: int, result: bytes | None) -> bool | None:
        """Whether a completion was committed. None: the job is locked, perhaps by the very
        transaction that completes it. It does not wait for locks."""

    def transaction(self) -> AbstractContextManager[Any]:
        """A connection of the store's own, in a transaction that is committed at the end, or rolled
        back by an exception. If the answer to the commit is lost, it raises: what became of it,
        `is_completed` tells. A `complete` on it is followed by the commit, soon: a process that
        stops in between does not hold the job for long."""
