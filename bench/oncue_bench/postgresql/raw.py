"""What PostgreSQL could do at best: the product's own schema and statements in bare loops on bare
connections, with no Python objects around them."""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from time import perf_counter
from time import time as wall  # noqa: TID251
from typing import Any, NamedTuple

import psycopg

from oncue.clock import SystemClock
from oncue.core import ids
from oncue.core.shard import shard_of
from oncue.stores.postgresql import schema
from oncue.stores.postgresql.address import PgAddress
from oncue.stores.postgresql.database import SESSION, PgDatabase
from oncue.stores.postgresql.store import DEFAULT_SHARDS
from oncue_bench.postgresql import place
from oncue_bench.receiving import PATIENCE_SECONDS, schedule_elsewhere
from oncue_bench.seeds import BODY, CHUNK, DAY_MS, HOUR_MS, QUEUE

RANK = 19  # of a job without priority that was never reclaimed
_COPIED = ("text", "text", "int8", "bytea", "int2", "int8", "int8", "int2")
_DRAIN = """
DELETE FROM oncue.jobs WHERE id = ANY(ARRAY(
  SELECT id FROM oncue.jobs
  WHERE state = 'scheduled' AND not_before IS NULL AND queue = %s AND shard = %s AND rank = %s
    AND due_at <= %s
  ORDER BY due_at, id LIMIT %s FOR UPDATE SKIP LOCKED))
RETURNING id, due_at, payload, attempt
"""
_FINISHED = """
INSERT INTO oncue.jobs (id, queue, due_at, payload, created_at, updated_at, finished_at,
  claimed_at, state, attempt, worker, shard)
SELECT 'old-' || lpad(at::text, 12, '0'), %s, %s + at, %s, %s, %s + at, %s + at,
  %s + at, 'succeeded', 1, 'bench', 0
FROM generate_series(1, %s) AS at
"""
_NEXT = """
SELECT due_at FROM oncue.jobs
WHERE state = 'scheduled' AND not_before IS NULL AND queue = %s AND shard = %s AND rank = %s
ORDER BY due_at LIMIT 1
"""

Figures = dict[str, Any]
Row = tuple[Any, ...]


class Bare(NamedTuple):
    """A bare connection, and the statements for its schema."""

    connection: psycopg.Connection[Any]
    db: PgDatabase

    def sql(self, noun: str, name: str) -> bytes:
        return self.db.statements.load(noun)[name].encode()

    def own(self, statement: str) -> bytes:
        return statement.replace("oncue.", f"{self.db.address.schema}.").encode()

    def rows(self, statement: bytes, params: Any) -> list[Any]:
        return self.connection.cursor(binary=True).execute(statement, params).fetchall()


def wait(seconds: float) -> None:
    threading.Event().wait(max(0.0, seconds))


def idle() -> Figures:
    """Nothing but the imports: what the memory of the others is compared with."""
    return {}


@contextmanager
def opened(url: str) -> Iterator[Bare]:
    """The tables are there, and the connection is as one of the product's."""
    db = PgDatabase(PgAddress.read(url))
    schema.prepare(db)
    with place.connected(url) as connection:
        connection.execute(SESSION.encode(), prepare=False)
        connection.prepare_threshold, connection.prepared_max = 0, None
        yield Bare(connection, db)
    db.close()


def seed(url: str, due: int = 0, pending: int = 0, finished: int = 0) -> Figures:
    """Jobs due at one instant just passed, others spread over a month from tomorrow on, and others
    that ended in the last hours, all in one queue."""
    now = SystemClock().now()
    with opened(url) as bare:
        bare.connection.execute(bare.sql("jobs", "ensure_queues"), {"queues": [QUEUE]})
        month = 30 * DAY_MS // max(pending, 1)
        ahead = (_row(now, now + DAY_MS + number * month) for number in range(pending))
        _copy(bare, _chunks(ahead))
        _copy(bare, _chunks(_row(now, now - 1) for _ in range(due)))
        bare.connection.execute("SET statement_timeout = 0")
        ago = now - finished - HOUR_MS
        values = (QUEUE, ago, BODY, ago, ago, ago, ago, finished)
        bare.connection.execute(bare.own(_FINISHED), values)
        bare.connection.execute(bare.own("VACUUM (ANALYZE) oncue.jobs"), prepare=False)
    place.settle(url)
    return {"count": due + pending + finished}


def in_copies(url: str, count: int) -> Figures:
    """COPY and commit, as many rows at once as `schedule_many` stores."""
    now = SystemClock().now()
    with opened(url) as bare:
        chunks = list(_chunks(_row(now, now + HOUR_MS) for _ in range(count)))
        began = perf_counter()
        _copy(bare, chunks)
        return {"count": count, "seconds": perf_counter() - began}


def _row(now: int, due_at: int) -> Row:
    job_id = ids.mint(now, due_at, QUEUE, 0)
    return job_id, QUEUE, due_at, BODY, 0, now, now, shard_of(job_id, DEFAULT_SHARDS)


def _chunks(source: Iterator[Row], size: int = CHUNK) -> Iterator[list[Row]]:
    while chunk := list(islice(source, size)):
        yield chunk


def _copy(bare: Bare, chunks: Any) -> None:
    statement, cursor = bare.sql("jobs", "copy"), bare.connection.cursor()
    for rows in chunks:
        with cursor.copy(statement) as copy:
            copy.set_types(_COPIED)
            for row in rows:
                copy.write_row(row)


def inserts(bare: Bare, count: int, group: int = 1) -> list[Any]:
    """The parameters of `insert_plain` for so many jobs, in groups."""
    now = SystemClock().now()
    names = ("ids", "queues", "dues", "payloads", "priorities", "created", "shards")
    made = []
    for rows in _chunks((_row(now, now + HOUR_MS) for _ in range(count)), group):
        columns = list(zip(*rows, strict=True))
        columns.pop(6)  # when it was changed is when it was made
        made.append(
            {"patience": None, "locks": [1], **dict(zip(names, map(list, columns), strict=True))}
        )
    return made


def one_by_one(bare: Bare, count: int) -> float:
    """Insert and commit, again and again. How many seconds it took."""
    statement, made = bare.sql("jobs", "insert_plain"), inserts(bare, count)
    began = perf_counter()
    for params in made:
        bare.rows(statement, params)
    return perf_counter() - began


def in_groups(url: str, count: int, group: int) -> Figures:
    """A perfect group commit: so many jobs in every commit."""
    with opened(url) as bare:
        statement = bare.sql("jobs", "insert_plain")
        first, *made = inserts(bare, count + group, group)
        bare.rows(statement, first)
        began = perf_counter()
        for params in made:
            bare.rows(statement, params)
        return {"count": count, "seconds": perf_counter() - began}


def drain(url: str, count: int, start_at: float = 0.0, node: int = 0) -> Figures:
    """Take what is due, batch by batch, until nothing is left. `start_at`: with others, who begin
    at the same moment, each at another shard."""
    now, done, ended = SystemClock().now(), 0, 0.0
    with opened(url) as bare:
        statement, shard, empty = bare.own(_DRAIN), 2 * node % DEFAULT_SHARDS, 0
        bare.rows(statement, (QUEUE, 0, RANK, 0, CHUNK))
        wait(start_at - wall())
        began = wall()
        while done < count and empty < DEFAULT_SHARDS:
            rows = bare.rows(statement, (QUEUE, shard, RANK, now, CHUNK))
            if rows:
                done, empty, ended = done + len(rows), 0, wall()
            else:
                empty += 1
            if len(rows) < CHUNK:
                shard = (shard + 1) % DEFAULT_SHARDS
    return {"count": done, "seconds": ended - began, "began": began, "ended": ended}


def on_time(url: str, count: int, over_seconds: float, lead_seconds: float) -> Figures:
    """A bare timer that hears what others store: it waits for the next moment, makes one durable
    claim, and looks at the clock."""
    lateness: list[float] = []
    with opened(url) as bare, place.connected(url) as hearing:
        hearing.execute(f"LISTEN oncue_{bare.db.address.schema}".encode())
        take, look = bare.own(_DRAIN), bare.own(_NEXT)
        schedule_elsewhere(url, count, over_seconds, lead_seconds)
        ends = wall() + lead_seconds + over_seconds + PATIENCE_SECONDS
        while len(lateness) < count and wall() < ends:
            firsts: dict[int, int] = {}
            for shard in range(DEFAULT_SHARDS):
                for row in bare.rows(look, (QUEUE, shard, RANK)):
                    firsts[shard] = row[0]
            shard = min(firsts, key=firsts.__getitem__)
            while (ahead := firsts[shard] / 1000 - wall()) > 0:
                if select.select([hearing], [], [], ahead)[0]:
                    list(hearing.notifies(timeout=0))
                    break
            else:
                rows = bare.rows(take, (QUEUE, shard, RANK, int(wall() * 1000), CHUNK))
                lateness += [wall() * 1000 - row[1] for row in rows]
    return {"lateness_ms": lateness}
