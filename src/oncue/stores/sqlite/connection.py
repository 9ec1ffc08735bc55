"""Opening an SQLite file so that what it acknowledges is durable, or saying why it cannot be."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import apsw

from oncue.core.errors import StoreError, StoreUnavailable, StoreUnusable
from oncue.stores.sqlite.presence import side_files, steps, users_of_another
from oncue.stores.sqlite.statements import migrations
from oncue.stores.sqlite.tx import SqliteTx

APPLICATION_ID = 0x6F6E6375  # "oncu": tells our files from other people's
PAGE_SIZE = 8192
CACHE_KIB = 16_384
BUSY_MS = 10_000
# Checkpoints cost more than they save when they come often; this is 32 MiB of log.
CHECKPOINT_PAGES = 4096
# A log that a long reader made longer is cut to this when it is next written from its beginning.
# Well above the usual length: cutting that would make the next commits pay for growing it again.
LOG_BYTES = 48 * 1024 * 1024
_NETWORK = {
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "beegfs", "ncpfs"),
    *("fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone"),
}


class Handle:
    """A connection, opened when it is first needed, and the lock of the thread that uses it."""

    __slots__ = ("_connection", "_open", "lock", "owner")

    def __init__(self, open_it: Callable[[], SqliteTx]) -> None:
        self.lock = threading.Lock()
        self.owner: int | None = None
        """The thread that reads with it."""
        self._open = open_it
        self._connection: SqliteTx | None = None

    @property
    def connection(self) -> SqliteTx:
        """Only for the holder of the lock."""
        found = self._connection
        if found is None:
            found = self._connection = self._open()
        return found

    def owned_by(self, thread: int) -> bool:
        return self.owner == thread and self.lock.locked()  # Ctrl-C may have left the owner behind

    def close(self, *, checkpoint: bool = True) -> None:
        """Close the connection. Without `checkpoint` the log stays as it is."""
        found, self._connection = self._connection, None
        if found is not None:
            if not checkpoint:
                found.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            found.close()


def connect(path: Path, check_file: Callable[[], None] = lambda: None) -> SqliteTx:
    """A connection with every durability setting in force and read back. `check_file` is called
    once the file is open and before it is read: if another file has taken the place, it must raise,
    because SQLite would take the log at the path for that of the new file, and damage it."""
    with translated(path):
        # Never creates the file: one that was deleted must not come back empty.
        connection = SqliteTx(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            check_file()
        except BaseException:
            connection.close()
            raise
        connection.set_busy_timeout(BUSY_MS)
        pragma(connection, "page_size", PAGE_SIZE)
        if _switch_to_wal(connection) != "wal":
            raise StoreUnusable(
                f"{path}: this place does not allow SQLite's write-ahead log, which oncue needs. "
                "Put the file on a local disk."
            )
        pragma(connection, "synchronous", "FULL")
        if pragma(connection, "synchronous") != 2:
            raise StoreUnusable(f"{path}: synchronous=FULL could not be set.")
        # Plans must not depend on the values of parameters: where they may, every new value has its
        # statement compiled again, which costs ten times what running it does.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        pragma(connection, "cache_size", -CACHE_KIB)
        pragma(connection, "wal_autocheckpoint", CHECKPOINT_PAGES)
        pragma(connection, "journal_size_limit", LOG_BYTES)
        return connection


def _switch_to_wal(connection: apsw.Connection) -> object:
    try:
        return pragma(connection, "journal_mode", "wal")
    except apsw.BusyError:  # this one switch does not wait by itself, but a transaction does
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("COMMIT")
        return pragma(connection, "journal_mode", "wal")


def prepare(path: Path) -> None:
    """Create the file or bring its schema up to date; refuse what is not ours to touch."""
    _refuse_network(path)
    if not path.parent.is_dir():
        raise StoreUnusable(f"{path}: the folder {path.parent} does not exist. Create it first.")
    _refuse_remains(path)
    _refuse_log_of_another(path)
    _create(path)
    with translated(path):
        _refuse_foreign(path)  # before anything is written into it
    with closing(connect(path)) as connection, translated(path):
        _migrate(connection, path)


def _create(path: Path) -> None:
    """Make an empty file that only its owner can read, if there is none: jobs may hold secrets.
    SQLite gives its log the same permissions. Why a file cannot be made, SQLite says later."""
    # Never open a file that is there: closing it would end the locks that this process has on it.
    with suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def pragma(connection: apsw.Connection, name: str, value: object = None) -> object:
    """Set a pragma if a value is given, and read what is in force."""
    setting = "" if value is None else f" = {value}"
    return connection.execute(f"PRAGMA {name}{setting}").get


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Foreign errors become ours, with the next step in the text."""
    try:
        yield
    except apsw.Error as error:
        raise translate(error, path) from error


def translate(error: apsw.Error, path: Path) -> StoreError:
    match error:
        case apsw.NotADBError() | apsw.CorruptError():
            return StoreUnusable(
                f"{path}: not an SQLite database, or a damaged one ({error}). "
                f"Check the path. If it used to work, restore a backup: {steps(path)}"
            )
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return StoreUnusable(
                f"{path}: the file or its folder is read-only. Give this user write permission "
                "to both; SQLite keeps its log beside the file."
            )
        case apsw.CantOpenError():
            return StoreUnusable(
                f"{path}: cannot be opened ({error}). Check that the path names a file, "
                "that its folder exists and that this user may write there."
            )
        case apsw.FullError():
            return StoreUnavailable(
                f"{path}: the disk is full. Nothing of this call was stored; "
                "free some space and call again."
            )
        case apsw.BusyError() | apsw.LockedError():
            return StoreUnavailable(
                f"{path}: locked by another process for {BUSY_MS // 1000} s. "
                "Find the program that holds a long transaction on it, or call again."
            )
        case apsw.IOError():
            return StoreUnavailable(f"{path}: the disk reported an error ({error}). Call again.")
    return StoreError(f"{path}: {error}")


def _migrate(connection: apsw.Connection, path: Path) -> None:
    """If this raises, closing the connection undoes what was begun."""
    wanted = migrations()
    # Only looking need not wait for a program that holds the lock.
    if require_current(connection, path) == len(wanted) and not connection.readonly("main"):
        return
    # If another process migrates it, this waits and then finds it done. Not by `with connection`:
    # that keeps the interpreter while it waits, which the thread that holds the lock may need.
    connection.execute("BEGIN IMMEDIATE")
    version = require_current(connection, path)
    for script in wanted[version:]:
        connection.execute(script).fetchall()
    if version < len(wanted):
        pragma(connection, "application_id", APPLICATION_ID)
        pragma(connection, "user_version", len(wanted))
    connection.execute("COMMIT")


def require_current(connection: apsw.Connection, path: Path) -> int:
    """The version of the schema; a newer one than is known here is refused."""
    version, known = int(str(pragma(connection, "user_version"))), len(migrations())
    if version > known:
        raise StoreUnusable(
            f"{path}: its schema is version {version}, but this oncue knows only up to {known}. "
            "Upgrade oncue, or use the version that wrote the file."
        )
    return version


def stored_schema(path: Path) -> int | None:
    """The version of the schema of a file that nobody needs to have open; None: there is no file,
    or an empty one. Nothing is changed."""
    _refuse_remains(path)
    if not _has_content(path):
        return None
    with translated(path):
        _refuse_foreign(path)
        with closing(apsw.Connection(str(path))) as connection:
            connection.set_busy_timeout(BUSY_MS)
            return require_current(connection, path)


def tables(connection: apsw.Connection) -> set[str]:
    names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    return {str(name) for (name,) in names}


def has_remains(path: Path) -> bool:
    """Whether a log is there without its file. A new file would be mixed up with it, and with what
    a process that still has the old file open writes to it."""
    # In this order: a process that creates the store makes the file before the log.
    return any(map(os.path.exists, side_files(path))) and not _has_content(path)


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _refuse_remains(path: Path) -> None:
    if has_remains(path):
        raise StoreUnusable(
            f"{path}: the file is gone or empty, but {path}-wal or {path}-shm is there: it was "
            "deleted or moved away, perhaps while a program uses it. Put the same file back; or "
            "ask 'oncue doctor' whether a program still has its data. For a backup, or to begin "
            f"without one: {steps(path)}"
        )


def _refuse_log_of_another(path: Path) -> None:
    """SQLite would read the log that a process writes for the file that was here before."""
    pids = users_of_another(path)
    if pids:
        named = f"process {pids[0]}" if len(pids) == 1 else f"processes {', '.join(map(str, pids))}"
        raise StoreUnusable(
            f"{path}: the file that was here before is still in use, with its log {path}-wal, by "
            f"{named}. For a backup: {steps(path)}"
        )


def _refuse_foreign(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as connection:
        connection.set_busy_timeout(BUSY_MS)
        connection.execute("BEGIN")  # one snapshot: another process may just be creating it
        application = pragma(connection, "application_id")
        schema = connection.execute("SELECT count(*) FROM sqlite_schema").get
        is_used = application or schema or pragma(connection, "user_version")
    if application != APPLICATION_ID and is_used:
        raise StoreUnusable(
            f"{path}: this database belongs to another program. Give oncue a file of its own."
        )


def file_system(path: Path) -> str:
    """The type of the file system that holds `path`, or "" where the system does not say."""
    try:
        mounts = Path("/proc/self/mounts").read_text("utf-8", "replace")
    except OSError:
        return ""
    place = os.path.realpath(path.parent)
    best, kind = "", ""
    for line in mounts.splitlines():
        _, mount, fs, *_ = line.split(" ")
        mount = mount.replace("\\040", " ")
        inside = place == mount or place.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, fs
    return kind


def _refuse_network(path: Path) -> None:
    kind = file_system(path)
    if kind in _NETWORK:
        raise StoreUnusable(
            f"{path}: lies on a network file system ({kind}), where SQLite's write-ahead log "
            "cannot be shared safely. Use a local disk, or the PostgreSQL store."
        )
