"""Opening an SQLite file, or saying in a sentence why it cannot be."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from oncue.clock import FakeClock
from oncue.core.errors import StoreError, StoreUnavailable, StoreUnusable
from oncue.core.job import NewJob
from oncue.core.lifecycle import State
from oncue.core.queue import Queue, RetryPolicy, default_queue
from oncue.ports.sink import Refusal
from oncue.stores import open_store
from oncue.stores.sqlite import SqliteStore, connection
from oncue.stores.sqlite.statements import migrations
from oncue.usecases.queues import put_queue
from tests.contract.desk import claim_due, together

NOW = FakeClock().now()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path, FakeClock())
    yield store
    store.close()


def new(job_id: str = "a") -> NewJob:
    return NewJob(job_id, "q", NOW, b"{}", 0, NOW)


def refused(path: Path) -> str:
    with pytest.raises(StoreUnusable) as caught:
        SqliteStore(path)
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value)


def test_what_is_acknowledged_is_synced(store: SqliteStore) -> None:
    facts = store.describe().details
    assert (facts["kind"], facts["journal_mode"], facts["synchronous"]) == ("sqlite", "wal", "FULL")
    assert connection.pragma(store.db.writer.connection, "synchronous") == 2
    assert connection.pragma(store.db.writer.connection, "journal_mode") == "wal"
    with store.db.reading() as reader:
        assert connection.pragma(reader, "synchronous") == 2


def test_sqlite_is_newer_than_the_bug_that_lost_commits(store: SqliteStore) -> None:
    version = tuple(map(int, str(store.describe().details["sqlite"]).split(".")))
    assert version >= (3, 51, 3)


def test_an_url_names_a_file_relative_or_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("sqlite:///here.db", f"sqlite:///{tmp_path}/there.db"):
        open_store(url).close()
    assert {file.name for file in tmp_path.iterdir()} == {"here.db", "there.db"}


def test_a_new_file_and_its_log_can_be_read_by_the_owner_only(path: Path) -> None:
    before = os.umask(0o022)
    try:
        with closing(SqliteStore(path)) as store:
            store.insert([new()], NOW)
            modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys([path.name, f"{path.name}-wal", f"{path.name}-shm"], 0o600)


def test_a_file_that_is_there_keeps_its_permissions(path: Path) -> None:
    SqliteStore(path).close()
    path.chmod(0o640)
    SqliteStore(path).close()
    assert path.stat().st_mode & 0o777 == 0o640


def test_the_same_file_opens_again_with_its_jobs_and_its_secret(path: Path) -> None:
    with closing(SqliteStore(path)) as first:
        first.insert([new()], NOW)
        secret = first.secret
    with closing(SqliteStore(path)) as second:
        assert second.get("a") is not None
        assert second.secret == secret
        assert len(secret) == 32


def test_what_is_not_a_database_is_refused(path: Path) -> None:
    path.write_bytes(b"Dear diary, today I was not a database. " * 100)
    before = path.read_bytes()
    assert "not an SQLite database" in refused(path)
    assert path.read_bytes() == before


def test_a_damaged_file_is_refused(path: Path) -> None:
    SqliteStore(path).close()
    data = bytearray(path.read_bytes())
    data[100:9000] = os.urandom(8900)
    path.write_bytes(data)
    assert "damaged" in refused(path)


@pytest.mark.parametrize("mark", ["table", "application_id", "user_version"])
def test_the_database_of_another_program_is_refused(path: Path, mark: str) -> None:
    with closing(sqlite3.connect(path)) as other:
        statement = "CREATE TABLE notes (x)" if mark == "table" else f"PRAGMA {mark} = 7"
        other.execute(statement)
        other.commit()
    assert "belongs to another program" in refused(path)


def test_the_database_of_another_program_is_left_as_it_was(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE notes (x)")
        other.commit()
    before = path.read_bytes()
    refused(path)
    assert path.read_bytes() == before


def test_a_newer_schema_is_refused_by_both_versions(path: Path) -> None:
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as newer:
        newer.execute("PRAGMA user_version = 99")
    said = refused(path)
    assert "version 99" in said
    assert f"only up to {len(migrations())}" in said
    assert "Upgrade oncue" in said


def test_a_job_that_is_put_off_is_put_off_after_a_restart(path: Path) -> None:
    out = Queue("out", sink="log:")
    with closing(SqliteStore(path, FakeClock())) as store:
        store.insert([NewJob("a", "out", NOW, b"{}", 0, NOW)], NOW)
        claim = store.claim_range(out, "d", 9, NOW, lease_seconds=60)
        assert store.settle_range(claim, [], {"a": Refusal("busy", False)}, NOW)
        before = store.get("a")
    with closing(SqliteStore(path, FakeClock())) as store:
        assert store.get("a") == before
        until = store.next_due(["out"])
        assert until is not None
        assert until > NOW
        early = store.claim_range(out, "d", 9, until - 1, lease_seconds=60)
        assert list(early.jobs) == []
        on_time = store.claim_range(out, "d", 9, until, lease_seconds=60)
        assert [job.id for job in on_time.jobs] == ["a"]


def test_a_file_of_the_first_schema_is_brought_up_to_date_with_all_that_is_in_it(
    path: Path,
) -> None:
    with closing(sqlite3.connect(path)) as old:
        old.executescript(migrations()[0])
        old.executescript(f"PRAGMA application_id = {connection.APPLICATION_ID}")
        old.executescript("PRAGMA user_version = 1")
        settings = '{"max_attempts": 7, "retry": {"initial_seconds": 5}}'
        old.execute("INSERT INTO queues (name, settings) VALUES ('q', ?)", (settings,))
        old.execute("INSERT INTO queues (name, paused) VALUES ('tasks', 1)")
        row = ("a", "q", NOW, b"{}", NOW, NOW)
        columns = "id, queue, due_at, payload, created_at, updated_at"
        old.execute(f"INSERT INTO jobs ({columns}) VALUES (?, ?, ?, ?, ?, ?)", row)
        old.commit()
    with closing(SqliteStore(path, FakeClock())) as store:
        assert store.describe().schema == len(migrations())
        kept = Queue("q", max_attempts=7, retry=RetryPolicy(initial_seconds=5))
        assert store.queues() == [kept, replace(default_queue("tasks"), paused=True)]
        put_queue(store, replace(kept, rate_per_second=10, concurrency=1))
        assert [claimed.id for claimed in claim_due(store, [kept], "w", 9, NOW)] == ["a"]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    said = refused(tmp_path / "no" / "such" / "jobs.db")
    assert f"the folder {tmp_path / 'no' / 'such'} does not exist. Create it first." in said


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert "Check that the path names a file" in refused(tmp_path)


def test_a_network_file_system_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("nfs4", "cifs", "fuse.sshfs"):
        monkeypatch.setattr(connection, "file_system", lambda _, kind=kind: kind)
        said = refused(path)
        assert f"network file system ({kind})" in said
        assert "Use a local disk" in said
    assert not path.exists()


def test_the_file_system_is_that_of_the_nearest_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = f"""
/dev/sda1 / ext4 rw 0 0
server:/home {tmp_path.parent} nfs4 rw 0 0
/dev/sdb1 {tmp_path}/my\\040disk xfs rw 0 0
/dev/sdc1 {tmp_path}/my btrfs rw 0 0
""".lstrip()
    monkeypatch.setattr(Path, "read_text", lambda *_: mounts)
    (tmp_path / "my disk").mkdir()
    assert connection.file_system(tmp_path / "my disk" / "jobs.db") == "xfs"
    assert connection.file_system(tmp_path / "jobs.db") == "nfs4"
    assert connection.file_system(Path("/jobs.db")) == "ext4"


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (apsw.ReadOnlyError("x"), StoreUnusable, "read-only. Give this user write permission"),
        (apsw.PermissionsError("x"), StoreUnusable, "read-only"),
        (apsw.CantOpenError("x"), StoreUnusable, "cannot be opened"),
        (apsw.CorruptError("x"), StoreUnusable, "remove jobs.db-wal and jobs.db-shm, put"),
        (apsw.FullError("x"), StoreUnavailable, "the disk is full. Nothing of this call was"),
        (apsw.BusyError("x"), StoreUnavailable, "locked by another process for 10 s"),
        (apsw.LockedError("x"), StoreUnavailable, "locked"),
        (apsw.IOError("x"), StoreUnavailable, "the disk reported an error"),
        (apsw.SQLError("x"), StoreError, "x"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_every_trouble_of_sqlite_is_told_with_the_next_step(
    error: apsw.Error, kind: type[StoreError], words: str
) -> None:
    told = connection.translate(error, Path("jobs.db"))
    assert type(told) is kind
    assert str(told).startswith("jobs.db: ")
    assert words in str(told)


OPENING = """
import sys
from oncue import Scheduler
go = sys.stdin.readline()
with Scheduler(sys.argv[1]) as cue:
    cue.schedule(id=sys.argv[2])
"""


def test_many_processes_may_create_the_same_file_at_once(path: Path) -> None:
    children = [
        subprocess.Popen(
            [sys.executable, "-c", OPENING, f"sqlite:///{path}", f"job-{n}"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in range(4)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    said = [child.communicate(timeout=60)[1] for child in children]
    assert [child.returncode for child in children] == [0] * 4, "".join(said)
    with closing(SqliteStore(path)) as store:
        assert store.stats("default").counts[State.SCHEDULED] == 4


def test_many_threads_may_create_the_same_file_at_once(tmp_path: Path) -> None:
    def creating(path: Path) -> Callable[[int], None]:
        return lambda _: SqliteStore(path).close()

    for n in range(20):
        together(6, creating(tmp_path / f"{n}.db"))


NO_ROOM = """
import resource, signal, sys
from oncue import Scheduler, StoreUnavailable
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    Scheduler(sys.argv[1])
except StoreUnavailable:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    Scheduler(sys.argv[1]).schedule()
    print("healed")
"""


def test_no_room_for_a_new_file_is_told_and_heals(path: Path) -> None:
    said = [
        subprocess.run(
            [sys.executable, "-c", NO_ROOM, f"sqlite:///{path}{room}", str(room)],
            capture_output=True,
            text=True,
            check=False,
        )
        for room in (10_000, 60_000)
    ]
    assert [run.stdout for run in said] == ["healed\n"] * 2, [run.stderr for run in said]


def test_a_store_that_has_lost_a_table_says_so_when_it_is_described(store: SqliteStore) -> None:
    store.db.write(lambda tx: tx.execute("DROP TABLE outcomes").fetchall())
    with pytest.raises(StoreUnusable, match="tables that are gone: outcomes"):
        store.describe()
