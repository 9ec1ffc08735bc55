"""The program on a schema of the session's PostgreSQL."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg

from tests.servers.postgres import postgres_program, postgres_url

CANARY = "canary-of-the-store"
"""A password. The server asks for none, so any is right."""


def unused_url(**options: str) -> str:
    """Of a schema that does not exist."""
    return url_of(f"t{uuid4().hex}", **options)


def url_of(schema: str, role: str = "postgres", **options: str) -> str:
    more = "".join(f"&{name}={value}" for name, value in options.items())
    parts = urlsplit(postgres_url())
    return f"postgresql://{role}@{parts.hostname}:{parts.port}{parts.path}?schema={schema}{more}"


def schema_of(url: str) -> str:
    return url.partition("?schema=")[2].partition("&")[0]


def with_password(url: str) -> str:
    return url.replace("@", f":{CANARY}@", 1)


def do(statement: str, url: str | None = None) -> list[Any]:
    """What a statement answers, to the administrator of the server."""
    place = (url or postgres_url()).partition("?")[0]
    with psycopg.connect(place, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


@contextmanager
def new_role(rights: str = "") -> Iterator[str]:
    """A role that may do nothing but log in, and what `rights` grant ({role} is its name)."""
    name = f"r{uuid4().hex}"
    do(f"CREATE ROLE {name} LOGIN")
    try:
        do(rights.format(role=name) or "SELECT 1")
        yield name
    finally:
        do(f"DROP OWNED BY {name} CASCADE; DROP ROLE {name}")


def psql(script: str) -> subprocess.CompletedProcess[str]:
    """Run a script as a person at a shell would."""
    command = [postgres_program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", postgres_url()]
    return subprocess.run(command, input=script, capture_output=True, text=True, check=False)
