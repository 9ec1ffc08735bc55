"""What the doctor looks at in an SQLite file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from glob import glob
from pathlib import Path
from typing import Any

from oncue.cli.findings import Finding, bad, disk, ok, size, warn
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


def sqlite(cue: Scheduler, facts: dict[str, Any]) -> Iterator[Finding]:
    assert isinstance(cue.store, SqliteStore)
    path = Path(facts["path"])
    yield _durability(facts)
    yield _version(facts)
    yield _schema(facts)
    yield _file_system(facts["file_system"])
    yield from disk(path)
    yield from deleted(path)
    yield _log(path)
    yield _integrity(cue.store)


def _durability(facts: dict[str, Any]) -> Finding:
    told = f"journal_mode {facts['journal_mode']}, synchronous {facts['synchronous']}"
    if facts["journal_mode"] == "wal" and facts["synchronous"] in ("FULL", "EXTRA"):
        return ok("durability", f"{told}: what is acknowledged survives a power cut.")
    return bad(
        "durability",
        f"{told}: what is acknowledged may be lost in a power cut.",
        "Put the file on a local disk that allows SQLite's write-ahead log.",
    )


def _version(facts: dict[str, Any]) -> Finding:
    version = tuple(int(part) for part in facts["sqlite"].split(".")[:3])
    if version >= SAFE_SQLITE:
        return ok("SQLite", f"{facts['sqlite']}.")
    safe = ".".join(map(str, SAFE_SQLITE))
    return bad(
        "SQLite",
        f"{facts['sqlite']} has a fault that can damage the file when its log starts anew.",
        f"Upgrade: pip install 'apsw>={safe}'",
    )


def _schema(facts: dict[str, Any]) -> Finding:
    known = len(migrations())
    if facts["schema"] == known:
        return ok("schema", f"version {known}, the current one.")
    return bad(
        "schema",
        f"version {facts['schema']}, but this oncue works with {known}.",
        "Upgrade oncue on every machine that uses the file.",
    )


def _file_system(kind: str) -> Finding:
    if kind in SHARED or kind.startswith("fuse"):
        return warn(
            "file system",
            f"{kind}: a disk behind another program, whose locks and syncs may not hold.",
            "Put the file on a local disk.",
        )
    if kind in VOLATILE:
        return warn(
            "file system",
            f"{kind}: kept in memory, so a restart of the machine loses everything.",
            "Put the file on a disk.",
        )
    if kind in LAYERED:
        return warn(
            "file system",
            f"{kind}: the layer of a container, which goes when the container goes.",
            "Put the file on a volume.",
        )
    return ok("file system", f"{kind or 'of a kind that this system does not tell'}.")


def deleted(path: Path) -> Iterator[Finding]:
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
                "open file",
                f"process {number} uses a file of this name, or its log, that was deleted or "
                "replaced, and stores nothing any more.",
                f"Its data is there until process {number} ends. Without a backup copy it first: "
                f"cp {data} saved.db; cp {log} saved.db-wal; "
                "oncue --store sqlite:///saved.db doctor. "
                f"Then put saved.db or the backup in place: {steps(path)}",
            )


def _log(path: Path) -> Finding:
    try:
        length = Path(log_beside(path)).stat().st_size
    except OSError:
        length = 0
    if length <= LARGE_LOG:
        return ok("write-ahead log", f"{size(length)}.")
    return warn(
        "write-ahead log",
        f"{size(length)}: something has been reading for long and keeps it from being emptied.",
        "End long transactions on the file, such as a forgotten sqlite3 shell or a backup.",
    )


def _integrity(store: SqliteStore) -> Finding:
    try:
        with store.db.reading() as tx:
            answers = [str(row[0]) for row in tx.execute("PRAGMA quick_check(5)")]
    except OncueError as error:
        answers = [str(error)]
    if answers == ["ok"]:
        return ok("integrity", "the file is sound.")
    return bad(
        "integrity",
        "; ".join(answers),
        "Stop every program that uses the file and copy it. Then restore a dump into a new file; "
        f"or, for a backup: {steps(store.db.path)}",
    )
