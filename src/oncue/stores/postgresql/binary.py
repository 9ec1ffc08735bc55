"""Arrays, and rows for COPY, in the binary form of PostgreSQL. Written for many values at once:
psycopg writes them one by one, which takes it longer than the server needs to read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from struct import Struct
from typing import ClassVar, Self

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

from oncue.core.job import NewJob
from oncue.core.shard import shard_of

PIECE = 500  # rows for COPY that are sent at once: the server reads them while others are written
_ARRAY = Struct("!5i").pack
_EMPTY = Struct("!3i").pack
_LENGTH = Struct("!i").pack
_BIGINT = Struct("!iq").pack
_SMALLINT = Struct("!ih").pack
_COPY_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_END = Struct("!h").pack(-1)
_ROW = Struct("!hi").pack
_DUE = Struct("!iqi").pack
_REST = Struct("!ihiqiqih").pack
_COLUMNS = 8


class PgArray(bytes):
    """The values of an array, none of which is NULL. A subclass names their type."""

    oid: ClassVar[int]
    """Of that type."""

    def __init_subclass__(cls, kind: str) -> None:
        found = psycopg.adapters.types[kind]
        cls.oid = found.oid

        class ArrayDumper(Dumper):
            oid = found.array_oid
            format = Format.BINARY

            def dump(self, obj: PgArray) -> bytes:
                return obj

        psycopg.adapters.register_dumper(cls, ArrayDumper)

    @classmethod
    def _of(cls, count: int, values: bytes) -> Self:
        """`values`: each with its length before it."""
        return cls(_ARRAY(1, 0, cls.oid, count, 1) + values if count else _EMPTY(0, 0, cls.oid))


class Texts(PgArray, kind="text"):
    @classmethod
    def of(cls, values: Sequence[str]) -> Self:
        return cls._of(len(values), _sized([value.encode() for value in values]))


class Bodies(PgArray, kind="bytea"):
    @classmethod
    def of(cls, values: Sequence[bytes]) -> Self:
        return cls._of(len(values), _sized(values))


class Bigints(PgArray, kind="int8"):
    @classmethod
    def of(cls, values: Sequence[int]) -> Self:
        return cls._of(len(values), b"".join(map(_BIGINT, repeat(8), values)))


class Smallints(PgArray, kind="int2"):
    @classmethod
    def of(cls, values: Sequence[int]) -> Self:
        return cls._of(len(values), b"".join(map(_SMALLINT, repeat(2), values)))


def _sized(values: Sequence[bytes]) -> bytes:
    """Each with its length before it."""
    lengths = set(map(len, values))
    if len(lengths) == 1:  # as ids that were minted together have
        length = _LENGTH(lengths.pop())
        return length + length.join(values)
    return b"".join([part for value in values for part in (_LENGTH(len(value)), value)])


def copied(jobs: Iterable[NewJob], shards: Mapping[str, int]) -> Iterator[bytes]:
    """The input of `jobs.sql: copy`, piece by piece. `shards`: how many each queue has."""
    queues = {name: _sized([name.encode()]) for name in shards}
    rests: dict[tuple[int, int, int], bytes] = {}
    parts = [_COPY_HEAD]
    for job_id, queue, due_at, payload, priority, created_at, *_ in jobs:
        key = (priority, created_at, shard_of(job_id, shards[queue]))
        rest = rests.get(key)
        if rest is None:
            rest = rests[key] = _REST(2, priority, 8, created_at, 8, created_at, 2, key[2])
        text = job_id.encode()
        due = _DUE(8, due_at, len(payload))
        parts += (_ROW(_COLUMNS, len(text)), text, queues[queue], due, payload, rest)
        if len(parts) > 6 * PIECE:
            yield b"".join(parts)
            parts = []
    yield b"".join([*parts, _COPY_END])
