"""Job ids: minted here, or chosen by the client.

A minted id is made of 12 hexadecimal digits of creation time, 15 of a counter that starts at a
random place in every process, the delay until due in 1 to 11 of them, six letters from g to v that
stand for the queue, and the priority. So ids sort by creation, which keeps the id index growing at
its right edge. And a store that finds things by their key finds a job that was not moved by one
read: its id says in which queue and where in its order it waits.

The letters between the digits are what it is known by. Minted ids of earlier versions, which ended
with the delay, and UUIDs have none: nothing is read from them, nor from any other id.
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

from oncue.core.errors import InvalidInput
from oncue.core.moment import Moment

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}", re.ASCII)
_MINTED = re.compile(r"([0-9a-f]{12})[0-9a-f]{15}([0-9a-f]{1,11})([g-v]{6})([0-9])", re.ASCII)
_SERIAL = "%012x%015x"  # formatted by %, which is quicker than an f-string here
_FORM = f"{_SERIAL}%x%s"
_LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")
_MOST_ENDINGS = 10_000
_EPOCH_BITS = 11
RESERVED = frozenset({"batch", "cancel", "run", "retry", "move", "reprioritise"})
REMEMBERED_MS = 86_400_000  # how long an id chosen by a client outlives its finished job: a day


_counter: Iterator[int]


def _seed() -> None:
    global _counter
    _counter = itertools.count(secrets.randbits(59))


_seed()
os.register_at_fork(after_in_child=_seed)


class Minted(NamedTuple):
    """What a minted id says of its job, as it was created."""

    created_at: Moment
    due_at: Moment
    queue_digest: str
    """See `queue_digest`. Two queues may have the same."""
    priority: int


def mint(now: Moment, due_at: Moment, queue: str, priority: int) -> str:
    """A new id, unique and greater than those this process minted before."""
    return _FORM % (now, next(_counter), due_at - now, _endings[queue][priority])


def serial(now: Moment) -> str:
    """The part of a minted id that is unique and sorts, for ids of other kinds."""
    return _SERIAL % (now, next(_counter))


def first_epoch(now: Moment) -> int:
    """The epoch of a new job whose id may have belonged to another job before: greater than any
    that a job created earlier has, so that no token of that one is valid for this one. The last
    bits differ if the clock was set back in between. A double holds it exactly until 2109."""
    return now << _EPOCH_BITS | next(_counter) & (1 << _EPOCH_BITS) - 1


def read(job_id: str) -> Minted | None:
    """What the id says of its job; None: it is not of the form of minted ids."""
    match = _MINTED.fullmatch(job_id)
    if match is None:
        return None
    created_at = int(match[1], 16)
    return Minted(created_at, created_at + int(match[2], 16), match[3], int(match[4]))


def queue_digest(queue: str) -> str:
    """Six letters that stand for a queue in minted ids."""
    return blake2b(queue.encode(), digest_size=3).hexdigest().translate(_LETTERS)


class _Endings(dict[str, tuple[str, ...]]):
    """The last part of the ids of a queue, by priority, as minting needs it every time."""

    def __missing__(self, queue: str) -> tuple[str, ...]:
        if len(self) >= _MOST_ENDINGS:
            self.clear()
        digest = queue_digest(queue)
        self[queue] = endings = tuple(f"{digest}{priority}" for priority in range(10))
        return endings


_endings = _Endings()


def check_true(minted: Minted, queue: str, priority: int, due_at: Moment) -> None:
    """Refuse an id that a client chose and that says something else than is true of its job: a
    store would look for the job where it is not."""
    said, true = minted[1:], (due_at, queue_digest(queue), priority)
    names = ("due time", "queue", "priority")
    wrong = [name for name, one, other in zip(names, said, true, strict=True) if one != other]
    if wrong:
        raise InvalidInput(
            "an id of this form contains the queue, the priority and the due time of its job; this "
            f"job has another {' and another '.join(wrong)}. Send what the id contains, choose an "
            "id of another form, or leave it out.",
            "/id",
        )


def is_id(value: str) -> bool:
    """Whether any job can have this id."""
    return _ID.fullmatch(value) is not None and value not in RESERVED


def check_id(value: object, pointer: str = "/id") -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise InvalidInput(
            "an id is 1 to 80 letters, digits, '_' or '-', and starts with a letter or digit.",
            pointer,
        )
    if value in RESERVED:
        raise InvalidInput(f"{value!r} is a word of the API; choose another id.", pointer)
    return value
