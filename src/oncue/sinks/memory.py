"""A sink that keeps what it was given, for tests and benchmarks."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence

from oncue.core.errors import InvalidInput
from oncue.core.job import Delivery
from oncue.ports.sink import Refusal

KEPT = 100_000

_lock = threading.Lock()
_by_name: dict[str, MemorySink] = {}


class MemorySink:
    """Takes everything, unless told otherwise.

    `deliveries` holds the last `kept` jobs taken, oldest first; `counts` how many were taken per
    queue. With `counting` nothing is kept but the counts.
    """

    def __init__(self, *, counting: bool = False, kept: int = KEPT) -> None:
        self.deliveries: deque[Delivery] = deque(maxlen=kept)
        self.counts: Counter[str] = Counter()
        self.closed = False
        self._counting = counting
        self._failures: deque[BaseException] = deque()
        self._refusals: dict[str, Refusal] = {}
        self._lock = threading.Lock()

    def fail_next(self, error: BaseException) -> None:
        """The next delivery raises this and takes nothing; call again for the one after it."""
        self._failures.append(error)

    def refuse(self, job_id: str, refusal: Refusal) -> None:
        """Refuse this job, every time, until `accept`."""
        self._refusals[job_id] = refusal

    def accept(self, job_id: str) -> None:
        self._refusals.pop(job_id, None)

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        with self._lock:
            if self._failures:
                raise self._failures.popleft()
            asked = enumerate(batch) if self._refusals else ()
            refusals = {at: self._refusals[job.id] for at, job in asked if job.id in self._refusals}
            self.counts[queue] += len(batch) - len(refusals)
            if not self._counting:
                self.deliveries.extend(job for at, job in enumerate(batch) if at not in refusals)
            return refusals

    def close(self) -> None:
        self.closed = True


def named(name: str) -> MemorySink:
    """The memory sink of that name: the same one each time. From now on, queues of this process may
    have it as `memory:NAME`."""
    with _lock:
        return _by_name.setdefault(name, MemorySink())


def opened(name: str) -> MemorySink:
    """The memory sink of that name, if the program has made it. No setting makes one: whatever a
    queue of a server delivered to it would be lost."""
    with _lock:
        found = _by_name.get(name)
    if found is None:
        raise InvalidInput(
            "memory sinks are for tests: a program first makes one, with "
            f"oncue.sinks.memory.named({name[:80]!r}). Choose another sink, such as 'log:'.",
            "/sink",
        )
    return found
