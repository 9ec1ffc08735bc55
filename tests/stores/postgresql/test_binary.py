"""Arrays and rows that are written in the binary form arrive as they are."""

from __future__ import annotations

from typing import Any

import pytest

from oncue.stores.postgresql.binary import PIECE, Bigints, Bodies, PgArray, Smallints, Texts
from tests.contract.desk import Desk
from tests.stores.postgresql.faults import store_of

ARRAYS: dict[str, tuple[str, PgArray, list[Any]]] = {
    "texts of one length": ("text", Texts.of(["ab", "cd"]), ["ab", "cd"]),
    "other texts": ("text", Texts.of(["a", "", "größer"]), ["a", "", "größer"]),
    "bytes": ("bytea", Bodies.of([b"\0\1", b"", b"{}"]), [b"\0\1", b"", b"{}"]),
    "bigints": ("bigint", Bigints.of([0, -1, 2**62]), [0, -1, 2**62]),
    "smallints": ("smallint", Smallints.of([0, 19, -(2**15)]), [0, 19, -(2**15)]),
    "nothing": ("text", Texts.of([]), []),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_arrives_as_it_is(desk: Desk, name: str) -> None:
    kind, array, values = ARRAYS[name]
    assert (
        store_of(desk).db.once(lambda tx: tx.execute(f"SELECT %b::{kind}[]", [array]).get) == values
    )


def test_jobs_of_all_kinds_are_copied_as_they_are(desk: Desk) -> None:
    """In several pieces: texts of any length, queues, priorities, due times."""
    jobs = [
        desk.new(
            f"job-{'x' * (n % 7)}{n}",
            due_in=n,
            queue=f"queue-{'z' * (n % 3)}",
            payload=b'"%s"' % (b"y" * n),
            priority=n % 10,
        )
        for n in range(2 * PIECE + 1)
    ]
    assert desk.store.insert(jobs, desk.now) == {}
    for job in jobs[:: PIECE // 5]:
        found = desk.job(job.id)
        assert (found.queue, found.payload_json, found.priority) == (
            *(job.queue, job.payload, job.priority),
        )
        assert found.due_at.timestamp() * 1000 == job.due_at
