"""What a store provides for the parts here: transactions, and all that concerns its jobs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from oncue.core.firing import FiredJob
from oncue.core.job import Job, NewJob
from oncue.stores.relational.tx import RelationalTx

T = TypeVar("T")
P = ParamSpec("P")
X = TypeVar("X", bound=RelationalTx)


class RelationalPart(ABC, Generic[X]):
    """The methods of a store about one noun, on transactions of this kind."""

    @abstractmethod
    def _write(self, call: Callable[[X], T], *, synced: bool = True) -> T:
        """Run `call` in a transaction; it may be run again if that was undone. Not `synced`: a
        power cut may undo it."""

    @abstractmethod
    def _read(self) -> AbstractContextManager[X]:
        """One snapshot, however many statements."""

    @abstractmethod
    def _insert_fired(self, tx: X, fired: FiredJob) -> None:
        """Store the job of a rule, and tell of it."""

    @abstractmethod
    def _insert_occurrence(self, tx: X, job: NewJob, schedule: str) -> None:
        """Store the job of a schedule, unless its id is there, and tell of it."""

    @abstractmethod
    def _job_in(self, tx: X, job_id: str | None) -> Job | None:
        """The job as others see it: inside an open range claim it is dispatched. If it is not
        taken, nobody takes, changes or removes it before the end of the transaction."""

    @abstractmethod
    def _withdraw(self, tx: X, job_id: str) -> None:
        """Remove a job that `_job_in` has just found waiting."""


S = TypeVar("S", bound=RelationalPart[Any])


def transaction(method: Callable[Concatenate[S, X, P], T]) -> Callable[Concatenate[S, P], T]:
    """The method of a store as one transaction, which it is given first."""

    @wraps(method)
    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._write(lambda tx: method(self, tx, *args, **kwargs))

    return run
