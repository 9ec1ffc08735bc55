"""The partitions of the inbox: where programs put foreign items by their due time.

A bucket is a due time floored to five minutes, or to what the settings say; the partition of an
item is `j#<bucket>` or `j#<bucket>#<shard>`. All partitions are divided into parts: a part is read
by one process at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

from oncue.core.checks import whole
from oncue.core.errors import InvalidInput
from oncue.core.moment import Moment, parse, render
from oncue.core.shard import MOST_SHARDS, shard_of
from oncue.ports.inbox import InboxSettings

PARTS = 8
_MINUTE_MS = 60_000
_PREFIX = "j#"
_NAME_CHARACTERS = 16  # 2015-03-20T09:45


class Buckets(InboxSettings):
    """The settings of an inbox. A bucket is named here by the moment at which it begins."""

    __slots__ = ()

    @property
    def length_ms(self) -> int:
        return self.minutes * _MINUTE_MS

    def of(self, due_at: Moment) -> Moment:
        """The bucket of a due time."""
        return due_at - due_at % self.length_ms

    def between(self, first: Moment, last: Moment) -> list[Moment]:
        """The buckets of all moments from the first to the last."""
        return list(range(self.of(first), last + 1, self.length_ms))

    def partitions(self, bucket: Moment, part: int) -> Iterator[str]:
        """The partitions of a bucket that belong to a part; the one without a shard is first."""
        for shard in range(part - 1, self.shards, PARTS):
            yield partition(bucket, None if shard < 0 else shard)

    def place(self, due_at: Moment, job_id: str) -> tuple[str, str]:
        """The key under which a producer puts an item, in the form with a shard."""
        shard = shard_of(job_id, self.shards) if self.shards else None
        return partition(self.of(due_at), shard), f"{render(due_at)}#{job_id}"


def partition(bucket: Moment, shard: int | None = None) -> str:
    name = _PREFIX + render(bucket)[:_NAME_CHARACTERS]
    return name if shard is None else f"{name}#{shard}"


def bucket_in(pk: str) -> Moment:
    """The bucket that a partition is of."""
    return parse(pk[len(_PREFIX) :][:_NAME_CHARACTERS] + ":00Z")


def check_buckets(minutes: object, shards: object) -> Buckets:
    """Settings as somebody wants them. Minutes must divide the hour, so that a bucket's name
    follows from the minute alone."""
    length = whole(minutes, 1, 60, "/minutes")
    if 60 % length:
        raise InvalidInput("must divide an hour: 1, 2, 3, 4, 5, 6, 10, 12, …, 60.", "/minutes")
    return Buckets(length, whole(shards, 0, MOST_SHARDS, "/shards"))
