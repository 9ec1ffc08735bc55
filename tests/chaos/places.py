"""Where the jobs of a kill run are: a SQLite file, or a table of DynamoDB or a schema of PostgreSQL
that is made for the run and goes with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import uuid4

import psycopg

from oncue.clock import SystemClock
from oncue.core.job import JobFilter
from oncue.core.lifecycle import LIVE, State
from oncue.ports.store import Store
from oncue.stores import open_store
from oncue.stores.dynamodb import creation
from oncue.stores.dynamodb.address import TableAddress
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.dynamodb.table import Table
from oncue.stores.postgresql.address import PgAddress
from tests.servers import dynamodb_endpoint
from tests.servers.clients import dynamodb_client
from tests.servers.postgres import postgres_url

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
UNFINISHED = (State.SCHEDULED, *sorted(LIVE))
PAGE = 50


class Terms(NamedTuple):
    """What is asked of a store in a kill run."""

    lease_seconds: float = 1.0
    early_ms: int = 0
    """How much earlier than due a job may arrive."""
    look_seconds: float = 0.0
    """The pause between two looks whether everything is done."""


# A dispatcher sends nothing once two thirds of its lease have passed since it asked for a batch. Of
# SQLite a batch is had in milliseconds. Here it takes ten requests of 5 to 20 ms, ten times as long
# on a busy machine, where leases of a second would end again and again with nobody struck.
ON_DYNAMODB = Terms(lease_seconds=3.0, early_ms=1000, look_seconds=0.5)


# Processes on it read one clock, corrected by each for itself, and a claim is a few journeys.
ON_POSTGRESQL = Terms(lease_seconds=2.0, early_ms=5)


def terms_of(url: str) -> Terms:
    return {"dynamodb": ON_DYNAMODB, "postgresql": ON_POSTGRESQL}.get(_kind(url), Terms())


def _kind(url: str) -> str:
    return url.partition(":")[0]


def unused_schema(server: str | None = None) -> str:
    """The URL of a schema that does not exist, on that server or on the session's."""
    url = server or postgres_url()
    return f"{url}{'&' if '?' in url else '?'}schema=kills{uuid4().hex}"


def unused_table() -> str:
    """The URL of a table in the session's DynamoDB Local that does not exist."""
    return f"dynamodb://kills-{uuid4().hex}?region=eu-central-1&endpoint={dynamodb_endpoint()}"


@contextmanager
def opened(url: str) -> Iterator[Store]:
    """The empty store of that URL, made for the caller."""
    if _kind(url) == "postgresql":
        yield from _opened_schema(url)
        return
    if _kind(url) != "dynamodb":
        store = open_store(url)
        try:
            yield store
        finally:
            store.close()
        return
    address = TableAddress.read(url)
    client = dynamodb_client(address.endpoint or dynamodb_endpoint())
    try:
        yield _new_store(address.table, client)
    finally:
        client.delete_table(TableName=address.table)


def _opened_schema(url: str) -> Iterator[Store]:
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()
        address = PgAddress.read(url)
        with psycopg.connect(address.conninfo, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {address.schema} CASCADE".encode())


def _new_store(name: str, client: Any) -> Store:
    table = Table(name, lambda: client)
    creation.create(table)
    return DynamoStore(table, SystemClock())


def is_done(store: Store, queue: str) -> bool:
    """Whether no job of a queue is left. By lists, as not every store can count: so a job that
    changes its state meanwhile may be overlooked, and who wants to be sure asks again."""
    return not any(_has(store, JobFilter(queue=queue, state=state)) for state in UNFINISHED)


def _has(store: Store, wanted: JobFilter) -> bool:
    page = store.page(wanted, None, PAGE)
    while not page.items and page.next is not None:
        page = store.page(wanted, page.next, PAGE)
    return bool(page.items)
