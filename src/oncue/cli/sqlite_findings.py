"""What the doctor looks at in an SQLite file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from glob import glob
from pathlib import Path
from typing import Any

from oncue.cli.findings import Checks, DoctorFinding, bad, disk, ok, size, warn
from oncue.core.errors import OncueError
from oncue.scheduler import Scheduler
from oncue.stores.sqlite import SqliteStore
from oncue.stores.sqlite.presence import log_beside, steps, target_of
from oncue.stores.sqlite.statements import migrations

SAFE_SQLITE = (3, 51, 3)
LARGE_LOG = 256 * 1024**2
SHARED = {"9p", "virtiofs", "vboxsf", "drvfs"}  # the store itself refuses real network ones
VOLATILE = {"tmpfs", "ramfs", "devtmpfs"}
LAYERED = {"overlay", "aufs"}


def checks(cue: Scheduler, facts: dict[str, Any], path: Path) -> Checks:
    assert isinstance(cue.store, SqliteStore)
    return {
        "durability": _durability(facts),
        "SQLite": _version(facts["sqlite"]),
        "schema": _schema(facts["schema"]),
        "file system": _file_system(facts["file_system"]),
        "disk space": disk(path),
        "open file": deleted(path),
        "write-ahead log": _log(path),
        "write lock": _lock(cue.store),
        "integrity": _integrity(cue.store),
    }


def _durability(facts: dict[str, Any]) -> Iterator[DoctorFinding]:
    modes = f"journal_mode {facts['journal_mode']}, synchronous {facts['synchronous']}"
    if facts["journal_mode"] == "wal" and facts["synchronous"] in ("FULL", "EXTRA"):
        yield ok(f"{modes}: what is acknowledged survives a power cut.")
    else:
        todo = "Put the file on a local disk that allows SQLite's write-ahead log."
        yield bad(f"{modes}: what is acknowledged may be lost in a power cut.", todo)


def _version(text: str) -> Iterator[DoctorFinding]:
    if tuple(int(part) for part in text.split(".")[:3]) >= SAFE_SQLITE:
        yield ok(f"{text}.")
    else:
        todo = f"Upgrade: pip install 'apsw>={'.'.join(map(str, SAFE_SQLITE))}'"
        yield bad(f"{text} has a fault that can damage the file when its log starts anew.", todo)


def _schema(version: int) -> Iterator[DoctorFinding]:
    newest = len(migrations())
    if version == newest:
        yield ok(f"version {newest}, the current one.")
    else:
        todo = "Upgrade oncue on every machine that uses the file."
        yield bad(f"version {version}, but this oncue works with {newest}.", todo)


def _file_system(kind: str) -> Iterator[DoctorFinding]:
    if kind in SHARED or kind.startswith("fuse"):
        text = f"{kind}: a disk behind another program, whose locks and syncs may not hold."
        yield warn(text, "Put the file on a local disk.")
    elif kind in VOLATILE:
        text = f"{kind}: kept in memory, so a restart of the machine loses everything."
        yield warn(text, "Put the file on a disk.")
    elif kind in LAYERED:
        text = f"{kind}: the layer of a container, which goes when the container goes."
        yield warn(text, "Put the file on a volume.")
    else:
        yield ok(f"{kind or 'of a kind that this system does not tell'}.")


def deleted(path: Path) -> Iterator[DoctorFinding]:
    """Processes that have a file of this name open which is not there any more. Where the system
    tells: on Linux, of the processes of the same user."""
    names = [os.path.realpath(path), log_beside(path)]
    for process in sorted(glob("/proc/[0-9]*")):
        files = {target_of(file): file for file in glob(f"{process}/fd/*")}
        # The copy must not be of a new file that the process has open besides.
        gone = [files.get(f"{name} (deleted)") for name in names]
        if any(gone):
            number = process.rpartition("/")[2]
            data, log = (
                old or files.get(name, name) for old, name in zip(gone, names, strict=True)
            )
            yield bad(
                f"process {number} uses a file of this name, or its log, that was deleted or "
                "replaced, and stores nothing any more.",
                f"Its data is there until process {number} ends. Without a backup copy it first: "
                f"cp {data} saved.db; cp {log} saved.db-wal; "
                "oncue --store sqlite:///saved.db doctor. "
                f"Then put saved.db or the backup in place: {steps(path)}",
            )


def _log(path: Path) -> Iterator[DoctorFinding]:
    log = Path(log_beside(path))
    length = log.stat().st_size if log.exists() else 0
    if length <= LARGE_LOG:
        yield ok(f"{size(length)}.")
        return
    yield warn(
        f"{size(length)}: something has been reading for long and keeps it from being emptied.",
        "End long transactions on the file, such as a forgotten sqlite3 shell or a backup.",
    )


def _lock(store: SqliteStore) -> Iterator[DoctorFinding]:
    store.db.write(lambda _: None)
    yield ok("could be taken: no other program holds it.")


def _integrity(store: SqliteStore) -> Iterator[DoctorFinding]:
    try:
        with store.db.reading() as tx:
            answers = [str(row[0]) for row in tx.execute("PRAGMA quick_check(5)")]
    except OncueError as error:
        answers = [str(error)]
    if answers == ["ok"]:
        yield ok("the file is sound.")
        return
    yield bad(
        "; ".join(answers),
        "Stop every program that uses the file and copy it. Then restore a dump into a new file; "
        f"or, for a backup: {steps(store.db.path)}",
    )
