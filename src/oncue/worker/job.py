"""The job as a handler gets it: its payload, its steps, and the news that it should stop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from oncue.core import payload as payloads
from oncue.core.errors import ClaimLost, Conflict, NotSupported, StoreUnavailable
from oncue.core.fencing import Refused
from oncue.core.job import Claimed, Operation
from oncue.core.lease import Touched
from oncue.core.moment import to_datetime
from oncue.core.queue import check_name
from oncue.usecases.intake import check_message, check_percent
from oncue.worker.results import body
from oncue.worker.source import AWAY, Beat

if TYPE_CHECKING:
    from oncue.ports.outbox import Outbox
    from oncue.worker.batch import RunningBatch

TRUSTED = 2 / 3  # of a lease: so long without a confirmed heartbeat, and the claim is given up

logger = logging.getLogger("oncue.worker")
T = TypeVar("T")
_UNREAD = object()


class OwnCompletion(NamedTuple):
    """Of a job, in a transaction of its handler."""

    result: bytes | None
    connection: object
    committed: bool = False
    """Whether that is known; else the store knows."""


class HandledJob:
    """A job in the hands of a handler."""

    # Defaults of the class: making a job takes half as long if they need not be set.
    cancel_requested = False
    """A cancel of this job was requested."""
    why_lost = ""
    """Why the claim is `lost`, once it is."""
    is_unconfirmed = False
    """It is lost only because no heartbeat was confirmed: perhaps the claim still holds."""
    announced = False
    """Whether the loss was logged."""
    completion: OwnCompletion | None = None
    """How its handler has completed it, if in a transaction."""
    is_cut_off = False
    """The store could not be reached when a transaction of the handler began, or during it."""
    is_in_block = False
    """Its handler is in a block of `transaction`."""
    _payload: Any = _UNREAD
    _operations: dict[str, Operation] | None = None

    def __init__(self, claim: Claimed, batch: RunningBatch, keep_until: float) -> None:
        self.claim = claim
        self._batch = batch
        self._keep_until = keep_until

    @property
    def id(self) -> str:
        return self.claim.id

    @property
    def queue(self) -> str:
        return self.claim.queue

    @property
    def facts(self) -> dict[str, str | int]:
        """Facts about the job for a line in the log; `extra=job.facts` puts it there."""
        return {"job_id": self.id, "queue": self.queue, "attempt": self.attempt}

    @property
    def payload(self) -> Any:
        if self._payload is _UNREAD:
            self._payload = payloads.decode(self.claim.payload)
        return self._payload

    @property
    def attempt(self) -> int:
        """1 for the first; one higher with every claim, but after a release the same again."""
        return self.claim.attempt

    @property
    def due_at(self) -> datetime:
        return to_datetime(self.claim.due_at)

    @property
    def lateness_seconds(self) -> float:
        """How long after its due time the job was taken."""
        return (self.claim.claimed_at - self.claim.due_at) / 1000

    @property
    def owner(self) -> str | None:
        return self.claim.owner

    @property
    def key(self) -> str | None:
        return self.claim.key

    @property
    def priority(self) -> int:
        return self.claim.priority

    @property
    def schedule(self) -> str | None:
        """The schedule whose occurrence it is, if it is one."""
        return self.claim.schedule

    @property
    def lost(self) -> bool:
        """The claim is over, or may be: another worker may have the job. Stop the work.

        Also when no heartbeat was confirmed for two thirds of the lease. That is judged here, when
        it is asked, by the monotonic clock: a store that does not answer cannot delay it, and a
        heartbeat that is answered too late does not undo it. How the work ended is reported all the
        same, and the store judges."""
        if self.completion is not None:
            return bool(self.why_lost)  # no heartbeat is sent any more: its transaction decides
        if not self.why_lost and self._batch.clock.monotonic() >= self._keep_until:
            silent = self._batch.queue.lease_seconds * TRUSTED
            why = f": no heartbeat was confirmed for {silent:.3g} s, two thirds of its lease"
            self.lose(why, is_unconfirmed=True)
        return bool(self.why_lost)

    @property
    def is_over(self) -> bool:
        """The store has said that the claim is over, or the worker has ended it."""
        return self.lost and not self.is_unconfirmed

    @property
    def overlong(self) -> bool:
        """The attempt has run for its `timeout_seconds`: the job is about to be taken back."""
        timeout = self.timeout_seconds
        return timeout is not None and self._batch.clock.monotonic() >= self._batch.taken + timeout

    @property
    def timeout_seconds(self) -> float | None:
        """How long the attempt may take, by the job or its queue; None: as long as it needs."""
        of_job = self.claim.timeout_seconds
        return self._batch.queue.timeout_seconds if of_job is None else of_job

    def lose(self, how: str, *, is_unconfirmed: bool = False) -> None:
        """Note that the claim is over, or may be."""
        self.is_unconfirmed = is_unconfirmed  # first: other threads look at both
        self.why_lost = f"the claim was lost{how}"

    def interrupt(self, why: Refused) -> None:
        """Note why the work should stop: a cancel was requested, or the claim is over."""
        if why.reason == "cancel requested":
            self.cancel_requested = True
        else:
            self.lose(f" ({why.reason})")

    def heartbeat_answered(self, answer: Touched | Refused, sent: float) -> None:
        """Note the answer to a heartbeat; `sent` is when it was sent, by the monotonic clock."""
        if isinstance(answer, Refused):
            self.interrupt(answer)
            return
        self.cancel_requested = answer.cancel_requested
        if not self.lost:
            self._keep_until = sent + self._batch.queue.lease_seconds * TRUSTED

    def operation(self, name: str) -> Operation | None:
        """The last report on a step, also from earlier attempts: state, percent, message,
        result."""
        if self._operations is None:
            self._operations = {one.name: one for one in self._all_operations()}
        return self._operations.get(name)

    def _all_operations(self) -> Iterator[Operation]:
        """Those that came with the claim, and the rest, which is read now: a step that an earlier
        attempt has finished must not run again."""
        yield from self.claim.operations
        after = self.claim.operations_cursor
        while after is not None:
            page = self._insist(partial(self._batch.source.operations, self.claim, after))
            yield from page.items
            after = page.next

    def step(self, name: str, function: Callable[[], T]) -> T:
        """Run `function` once in the life of the job: its result is stored, and a later attempt
        gets the stored one instead of running it again."""
        self._check_open()
        known = self.operation(check_name(name, "an operation"))
        if known is not None and known.is_final:
            return payloads.decode(known.result)  # type: ignore[no-any-return]
        self._report(name, "executing")
        try:
            result = function()
        except BaseException as error:
            self._report(name, "failed", message=type(error).__name__)
            raise
        self._report(name, "succeeded", result=payloads.encode(result, f"/{name}"))
        return result

    def progress(
        self, percent: float | None = None, message: str | None = None, *, step: str | None = None
    ) -> None:
        """Report how far the job, or one of its steps, has come; also a sign of life. If it
        cannot be stored now it is not, and the work goes on."""
        self._check_open()
        check_percent(percent)
        check_message(message)
        try:
            if step is not None:
                name = check_name(step, "an operation", "/step")
                self._put(name, "executing", percent=percent, message=message)
                return
            sent, lease_seconds = self._batch.clock.monotonic(), self._batch.queue.lease_seconds
            [answer] = self._batch.source.touch([Beat(self.claim, lease_seconds, message, percent)])
        except AWAY as trouble:
            text = "job %s: its progress was not stored: %s"
            logger.warning(text, self.id, trouble, extra=self.facts)
            return
        self.heartbeat_answered(answer, sent)
        if isinstance(answer, Refused):
            self.check()

    def complete(self, result: Any = None, *, connection: object) -> None:
        """Complete the job in a transaction of your own, on the database of its PostgreSQL store:
        what you write there takes effect exactly once, as the job is completed with it or not at
        all. Do it last, and commit soon. Raises `ClaimLost` if the claim is over: then roll back.
        What the handler returns is not used."""
        self._complete(OwnCompletion(body(result), connection))

    def _complete(self, done: OwnCompletion) -> None:
        outbox, claim = self._outbox(), self.claim
        with self._batch.settling:  # no heartbeat waits for the transaction
            before, self.completion = self._claimed_completion(), done
            now = self._batch.clock.now()
            refused = outbox.complete(done.connection, claim.id, claim.epoch, done.result, now)
            self._answered(refused, before)

    async def complete_async(self, result: Any = None, *, connection: object) -> None:
        """`complete` for connections of asyncio."""
        outbox, done = self._outbox(), OwnCompletion(body(result), connection)
        with self._batch.settling:
            before, self.completion = self._claimed_completion(), done
            now = self._batch.clock.now()
            claim = self.claim
            call = outbox.complete_async(connection, claim.id, claim.epoch, done.result, now)
            self._answered(await call, before)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A psycopg connection to the database of the job's PostgreSQL store, in a transaction. At
        the end of the block the job is completed, and that is committed together with what you
        wrote; if the block raises, both are rolled back. `complete` in the block gives a result."""
        if self.completion is not None:
            raise self._completed_elsewhere()
        if self.is_in_block:  # that one would be rolled back, and the job completed by this one
            raise Conflict(
                f"job {self.id}: a block of job.transaction() is open; write on its connection."
            )
        try:
            with self._outbox().transaction() as connection:
                try:
                    self.is_in_block = True
                    yield connection
                    self._complete_at_the_end(connection)
                except BaseException:
                    self.completion = None  # it is rolled back
                    raise
                finally:
                    self.is_in_block = False
        except StoreUnavailable:
            self.is_cut_off = True
            raise
        self.completion = self._committed()

    def _complete_at_the_end(self, connection: object) -> None:
        """Also if the handler has done it: that may have been in a savepoint that was rolled
        back."""
        done = self.completion or OwnCompletion(None, connection)
        if done.connection is not connection:
            raise self._completed_elsewhere()
        self._complete(done)

    def _committed(self) -> OwnCompletion:
        if self.completion is None:
            raise Conflict(f"job {self.id}: its transaction was rolled back by psycopg.Rollback.")
        return self.completion._replace(committed=True)

    def _completed_elsewhere(self) -> Conflict:
        return Conflict(
            f"job {self.id}: it is completed already, in another transaction; a job has one."
        )

    def _outbox(self) -> Outbox:
        outbox: Outbox | None = getattr(self._batch.source, "outbox", None)
        if outbox is None:
            raise NotSupported(
                f"job {self.id}: only a worker that has opened a PostgreSQL store itself "
                "(postgresql://…, not a server's URL) can complete a job in a transaction. Return "
                "from the handler instead, and make what it does idempotent."
            )
        if self._batch.handler.batch is not None:
            raise NotSupported(
                f"job {self.id}: a handler with batch= cannot complete a job in a transaction. "
                "Register it without batch=."
            )
        return outbox

    def _claimed_completion(self) -> OwnCompletion | None:
        if self.lost:
            self.check()
        return self.completion

    def _answered(self, refused: Refused | None, before: OwnCompletion | None) -> None:
        if refused is not None:
            self.completion = before
            self.interrupt(refused)
            self.check()

    def is_completed(self) -> bool | None:
        """As `Outbox.is_completed`, of its completion in a transaction."""
        done, claim = self.completion, self.claim
        if done is None or done.committed:
            return done is not None
        return self._outbox().is_completed(claim.id, claim.epoch, done.result)

    def _check_open(self) -> None:
        if self.completion is not None:
            raise Conflict(f"job {self.id} is completed by this handler: report before that.")
        self.check()

    def check(self) -> None:
        """Raise `ClaimLost` if there is no point in going on. Long handlers call it now and then;
        `step` and `progress` do so by themselves. It only reads memory, which is quick."""
        if self.lost:
            why = (
                f"{self.why_lost}. Another worker may have the job, and nothing more is accepted "
                "from this attempt"
            )
        elif self.cancel_requested:
            why = "a cancel was requested. The job ends cancelled as soon as its handler ends"
        elif self.overlong:
            why = (
                f"the attempt has run for {self.timeout_seconds:g} s, its timeout_seconds. The job "
                "goes to another worker, or fails if this was its last attempt"
            )
        else:
            return
        raise ClaimLost(f"job {self.id}: {why}; stop now.")

    def _report(self, name: str, state: str, **fields: Any) -> None:
        self._insist(lambda: self._put(name, state, **fields))

    def _insist(self, call: Callable[[], T]) -> T:
        """Passing trouble of the claim source does not fail the job: the call is repeated while the
        claim is held."""
        return self._batch.results.insist(call, in_vain=lambda: self.lost)

    def _put(self, name: str, state: str, **fields: Any) -> None:
        at = to_datetime(self._batch.clock.now())
        operation = Operation(name, state, at, **fields)
        answer = self._batch.source.put_operation(self.claim, operation)
        if isinstance(answer, Refused):
            if answer.reason == "different result":
                raise Conflict(f"job {self.id}: step {name!r} has another result already.")
            self.interrupt(answer)
            self.check()
        elif self._operations is not None:
            self._operations[name] = answer
