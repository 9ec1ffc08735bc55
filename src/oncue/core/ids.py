"""Job ids: made here, or chosen by the client.

A made id is hexadecimal: 12 digits of creation time, 15 digits of a counter that starts at a random
place in every process, then the delay until due. So ids sort by creation, which keeps the id index
growing at its right edge, and an unmoved job's due time can be read from its id, which lets a
key-value store find it with one read.
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
from collections.abc import Iterator

from oncue.core.errors import InvalidInput
from oncue.core.moment import Moment

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}", re.ASCII)
_MADE = re.compile(r"([0-9a-f]{12})[0-9a-f]{15}([0-9a-f]{1,11})", re.ASCII)
RESERVED = frozenset({"batch", "cancel", "run", "retry", "move", "reprioritise"})
REMEMBERED_MS = 86_400_000  # how long an id chosen by a client outlives its finished job: a day


_counter: Iterator[int]


def _seed() -> None:
    global _counter
    _counter = itertools.count(secrets.randbits(59))


_seed()
os.register_at_fork(after_in_child=_seed)


def mint(now: Moment, due_at: Moment) -> str:
    """A new id, unique and greater than those this process minted before."""
    return f"{now:012x}{next(_counter):015x}{due_at - now:x}"


def due_in(job_id: str) -> Moment | None:
    """The due time that a made id carries, or None for an id chosen by a client."""
    match = _MADE.fullmatch(job_id)
    return int(match[1], 16) + int(match[2], 16) if match else None


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
