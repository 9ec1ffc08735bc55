"""A sink that sends jobs to an SQS queue, standard or FIFO.

Ten messages make a call, and up to 64 calls are under way at a time. Of a FIFO queue, the calls
with messages of the same group are made one after the other.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from oncue.boto import code_of
from oncue.core.errors import InvalidInput
from oncue.core.job import Delivery
from oncue.forking import now_and_after_fork
from oncue.ports.clock import Clock
from oncue.ports.sink import Refusal, SinkTraits
from oncue.sinks import sqs_trouble
from oncue.sinks.sqs_address import CALLS_AT_ONCE, SqsAddress
from oncue.sinks.sqs_message import (
    CALL_ENTRIES,
    FORM,
    LARGEST_BYTES,
    LONGEST_DELAY_SECONDS,
    Entry,
    MessageForm,
)

ROUNDS = 3  # in which single messages that SQS did not take are sent again
PAUSE_SECONDS = 0.1  # before each of these rounds but the first, times its number

Call = Sequence[int]
"""The positions of the jobs that are sent together."""


class SqsSink:
    def __init__(
        self,
        address: SqsAddress,
        clock: Clock,
        client: Any = None,
        form: MessageForm = FORM,
        calls_at_once: int = CALLS_AT_ONCE,
    ) -> None:
        """`client`: of boto3; by default one is made for the address."""
        self._calls_at_once = calls_at_once
        self._form = form
        self._address = address
        self._clock = clock
        self._given = client
        self.traits = SinkTraits(
            ahead_seconds=0.0 if address.is_fifo else float(LONGEST_DELAY_SECONDS),
            in_order=address.is_fifo,
        )
        now_and_after_fork(self, SqsSink._renew)

    def _renew(self) -> None:
        """A client and threads of this process alone."""
        self._url: str | None = None
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._client = self._given

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        client = self._connected()
        url, form = self._queue_url(client), self._form
        sending = _Sending(self._address, client, url, batch, self._clock, form)
        sizes = [form.size_of(job) for job in batch]
        if self._address.is_fifo:
            lanes = [list(_calls(sizes, lane)) for lane in _lanes(map(form.group, batch))]
        else:
            lanes = [[call] for call in _calls(sizes, range(len(batch)))]
        if len(lanes) == 1:
            sending.send_lane(lanes[0])
        else:
            self._send_at_once(sending, lanes)
        return sending.answer()

    def check(self) -> None:
        """Ask once whether the queue is there; `SinkDown` says why not. Who may send to it need not
        have the right to look at it."""
        try:
            client = self._client or self._address.connect(tries=1)
            if self._address.url is None:
                client.get_queue_url(QueueName=self._address.queue)
            else:
                url = self._address.url
                client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        except Exception as error:
            if not sqs_trouble.is_denied(error):
                raise sqs_trouble.explain(self._address.queue, error) from None

    def close(self) -> None:
        with self._lock:
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown()

    def _send_at_once(self, sending: _Sending, lanes: Sequence[Sequence[Call]]) -> None:
        """Each lane is sent once. If the pool takes no more work, because the program ends, this
        thread sends what is left."""
        left = deque(lanes)

        def send() -> None:
            while left:
                try:
                    lane = left.popleft()
                except IndexError:  # another thread was faster
                    return
                sending.send_lane(lane)

        flights: list[Future[None]] = []
        try:
            for _ in lanes[: self._calls_at_once]:
                flights.append(self._pool().submit(send))
        except RuntimeError:
            send()
        for flight in flights:
            flight.result()

    def _pool(self) -> ThreadPoolExecutor:
        """All batches of the queue share it."""
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._calls_at_once, "oncue-sqs")
            return self._threads

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                try:
                    self._client = self._address.connect()
                except InvalidInput as error:
                    raise sqs_trouble.explain(self._address.queue, error) from None
            return self._client

    def _queue_url(self, client: Any) -> str:
        if self._url is None:
            try:
                self._url = self._address.find_url(client)
            except Exception as error:
                raise sqs_trouble.explain(self._address.queue, error) from None
        return self._url


def _calls(sizes: Sequence[int], positions: Iterable[int]) -> Iterator[Call]:
    """Ten jobs each, fewer if they are large."""
    call: list[int] = []
    room = LARGEST_BYTES
    for at in positions:
        if call and (len(call) == CALL_ENTRIES or sizes[at] > room):
            yield call
            call, room = [], LARGEST_BYTES
        call.append(at)
        room -= sizes[at]
    if call:
        yield call


def _lanes(groups: Iterable[str]) -> Iterable[list[int]]:
    """The jobs of each group together, in order; several groups may share a lane."""
    lanes: dict[int, list[int]] = {}
    for at, group in enumerate(groups):
        lanes.setdefault(crc32(group.encode()) % CALLS_AT_ONCE, []).append(at)
    return lanes.values()


@dataclass
class _Sending:
    """One batch on its way. Once a call meets trouble that is not about its messages, no further
    call is begun."""

    address: SqsAddress
    client: Any
    url: str
    batch: Sequence[Delivery]
    clock: Clock
    form: MessageForm
    untaken: dict[int, Refusal | None] = field(default_factory=dict)
    trouble: Exception | None = None

    def answer(self) -> Mapping[int, Refusal]:
        refused = {at: why for at, why in self.untaken.items() if why is not None}
        if self.trouble is None:
            return refused
        down = sqs_trouble.explain(self.address.queue, self.trouble)
        if len(self.untaken) < len(self.batch):
            down.untaken = self.untaken
        raise down

    def send_lane(self, calls: Sequence[Call]) -> None:
        for call in calls:
            if self.trouble is None:
                self._send(call)
            else:
                self.untaken.update(dict.fromkeys(call))

    def _entries(self, call: Call) -> dict[int, Entry]:
        now, fifo = self.clock.now(), self.address.is_fifo
        entries: dict[int, Entry] = {}
        for at in call:
            try:
                entries[at] = self.form.entry(self.batch[at], at, now, fifo=fifo)
            except InvalidInput as problem:
                self.untaken[at] = Refusal(problem.detail, permanent=True)
        return entries

    def _send(self, call: Call) -> None:
        left = self._entries(call)
        failed: dict[str, Any] = {}
        for number in range(ROUNDS if left else 0):
            threading.Event().wait(PAUSE_SECONDS * number)
            try:
                answer = self.client.send_message_batch(
                    QueueUrl=self.url, Entries=list(left.values())
                )
                taken = {one["Id"] for one in answer.get("Successful") or ()}
                failed = {one["Id"]: one for one in answer.get("Failed") or ()}
            except Exception as error:  # also if the answer is none
                self._call_failed(error, left)
                return
            untaken = {at: one for at, one in left.items() if one["Id"] not in taken}
            if any(one["Id"] not in failed for one in untaken.values()):
                self._call_failed(sqs_trouble.Unnamed(), untaken)
                return
            left = self._to_send_again(failed, left)
            if not left:
                return
        for at, one in left.items():
            self.untaken[at] = Refusal(f"SQS: {code_of(failed[one['Id']])}", permanent=False)

    def _to_send_again(
        self, failed: Mapping[str, Any], sent: Mapping[int, Entry]
    ) -> dict[int, Entry]:
        """The messages that SQS may take later. Those that it never takes are refused."""
        again: dict[int, Entry] = {}
        for at, one in sent.items():
            failure = failed.get(one["Id"])
            if failure is None:
                continue
            if sqs_trouble.is_for_good(failure):
                self.untaken[at] = Refusal(f"SQS: {code_of(failure)}", permanent=True)
            else:
                again[at] = one
        return again

    def _call_failed(self, error: Exception, left: Mapping[int, Entry]) -> None:
        """A whole call was refused, or was not answered."""
        if not sqs_trouble.is_of_messages(error):
            self.trouble = self.trouble or error
            self.untaken.update(dict.fromkeys(left))
        elif len(left) > 1:  # so that one message does not keep the others from being taken
            self.send_lane([[at] for at in left])
        else:
            refusal = Refusal(f"SQS: {code_of(error)}", permanent=True)
            self.untaken.update(dict.fromkeys(left, refusal))
