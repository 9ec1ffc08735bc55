"""The file is deleted, replaced or moved under a process that uses it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import apsw
import pytest

from oncue import Scheduler, State, StoreUnusable
from oncue.clock import FakeClock
from oncue.stores.sqlite import SqliteStore, presence
from tests.unit.queued import Queued

SOON = 20.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def store(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    monkeypatch.setattr(presence, "LOOK_SECONDS", 0.0)
    store = SqliteStore(path, FakeClock())
    yield store
    store.close()


@pytest.fixture
def cue(store: SqliteStore) -> Scheduler:
    cue = Scheduler(store)
    cue.schedule("before", id="before")
    return cue


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def delete(path: Path) -> None:
    path.unlink()


def delete_all(path: Path) -> None:
    for file in path.parent.iterdir():
        file.unlink()


def replace(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    os.replace(path.with_name("copy"), path)


def delete_log(path: Path) -> None:
    log_of(path).unlink()


def replace_log(path: Path) -> None:
    shutil.copy(log_of(path), path.with_name("copy"))
    os.replace(path.with_name("copy"), log_of(path))


TROUBLES = [delete, delete_all, replace, delete_log, replace_log]


@pytest.mark.parametrize("trouble", TROUBLES)
def test_nothing_is_acknowledged_any_more(
    path: Path, store: SqliteStore, cue: Scheduler, trouble: Callable[[Path], None]
) -> None:
    trouble(path)
    for call in (
        cue.schedule,
        partial(cue.job, "before"),
        partial(cue.claim, "default", "ada"),
        lambda: Queued(store, cue.schedule).result(SOON),
        store.describe,
    ):
        with pytest.raises(StoreUnusable, match=r"was deleted or replaced while it was in use"):
            call()
    assert path.exists() == (trouble not in (delete, delete_all))  # and nothing comes back empty


def test_an_error_of_sqlite_is_told_as_the_missing_file_before_the_next_look(
    path: Path, store: SqliteStore, cue: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new connection cannot be opened, and SQLite takes a missing file for a read-only one."""
    monkeypatch.setattr(presence, "LOOK_SECONDS", 3600.0)
    cue.job("before")
    delete_all(path)
    with (
        pytest.raises(StoreUnusable, match=r"was deleted or replaced while it was in use"),
        store.db.reading(),
        store.db.reading() as another,
    ):
        another.execute("SELECT 1 FROM jobs").fetchall()


def test_a_file_that_took_the_place_is_never_opened_beside_the_old_log(
    path: Path, store: SqliteStore, cue: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite would take the log at the path for that of the new file, and damage it."""
    monkeypatch.setattr(presence, "LOOK_SECONDS", 3600.0)
    cue.job("before")
    replace(path)
    placed = path.read_bytes()
    with (
        pytest.raises(StoreUnusable, match=r"the file was deleted or replaced while"),
        store.db.reading(),
        store.db.reading() as another,
    ):
        another.execute("SELECT 1 FROM jobs").fetchall()
    assert path.read_bytes() == placed
    opened = {presence.target_of(str(file)) for file in Path("/proc/self/fd").iterdir()}
    assert str(path) not in opened


def test_a_write_that_sqlite_refuses_is_told_as_the_missing_file_before_the_next_look(
    path: Path, cue: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "LOOK_SECONDS", 3600.0)
    cue.job("before")
    path.unlink()

    def refuse(*_: object) -> None:
        raise apsw.ReadOnlyError("attempt to write a readonly database")

    store = cue.store
    assert isinstance(store, SqliteStore)
    with pytest.raises(StoreUnusable, match=r"the file was deleted or replaced while"):
        store.db.write(refuse)


def test_what_is_written_while_the_file_goes_is_not_acknowledged(
    path: Path, store: SqliteStore, cue: Scheduler
) -> None:
    def write_and_delete() -> None:
        cue.schedule("during")
        path.unlink()

    with pytest.raises(StoreUnusable):
        store.db.writer.run(write_and_delete)
    with pytest.raises(StoreUnusable):
        Queued(store, cue.schedule).result(SOON)


def test_a_file_that_is_put_back_is_used_again(path: Path, cue: Scheduler) -> None:
    away = path.with_name("away")
    path.rename(away)
    with pytest.raises(StoreUnusable, match="Put the same file back"):
        cue.schedule()
    away.rename(path)
    assert cue.schedule("after").payload == "after"
    assert cue.job("before").payload == "before"


def test_the_working_directory_may_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "LOOK_SECONDS", 0.0)
    monkeypatch.chdir(tmp_path)
    with Scheduler("sqlite:///jobs.db") as cue:
        (tmp_path / "other").mkdir()
        os.chdir("other")
        cue.schedule(id="a")
        assert cue.job("a").id == "a"
    assert os.listdir() == []


def test_the_file_is_looked_at_twice_a_second_and_not_at_every_write(
    path: Path, cue: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1e12]
    monkeypatch.setattr(presence, "LOOK_SECONDS", 0.5)
    monkeypatch.setattr(presence, "_monotonic", lambda: now[0])
    looked: list[str] = []
    identity = presence.identity

    def look(path: str) -> tuple[int, int] | None:
        looked.append(path)
        return identity(path)

    monkeypatch.setattr(presence, "identity", look)
    for _ in range(10):
        cue.schedule()
    assert looked == [str(path), str(log_of(path))]
    now[0] += 0.6
    path.unlink()
    with pytest.raises(StoreUnusable):
        cue.schedule()


# -- afterwards ------------------------------------------------------------------------------------


def backup_of(path: Path, jobs: int) -> Path:
    """A sound file of so many jobs, beside the other one."""
    backup = path.with_name("backup.db")
    with closing(SqliteStore(backup, FakeClock())) as store:
        Scheduler(store).schedule_many(({"payload": n} for n in range(jobs)), queue="backup")
    return backup


def waiting(path: Path, queue: str) -> int:
    with closing(SqliteStore(path, FakeClock())) as store:
        with store.db.reading() as tx:
            assert tx.execute("PRAGMA integrity_check").get == "ok"
        return store.stats(queue).counts[State.SCHEDULED]


def test_the_log_of_a_replaced_file_is_not_written_over_the_backup(
    path: Path, store: SqliteStore, cue: Scheduler
) -> None:
    os.replace(backup_of(path, 3000), path)
    with pytest.raises(StoreUnusable, match=r"remove .*jobs\.db-wal and .*jobs\.db-shm, put the"):
        cue.schedule()
    store.close()
    assert waiting(path, "backup") == 3000
    assert waiting(path, "default") == 0


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="this system does not tell")
@pytest.mark.parametrize("leave", [os.unlink, lambda path: os.rename(path, f"{path}.old")])
def test_a_backup_is_not_opened_while_the_log_of_the_other_file_is_in_use(
    path: Path, store: SqliteStore, cue: Scheduler, leave: Callable[[Path], None]
) -> None:
    """SQLite would mix the log with the backup, and what is stored then is lost or mixed up."""
    backup = backup_of(path, 3)
    leave(path)
    os.rename(backup, path)
    with pytest.raises(StoreUnusable, match=rf"is still in use, .* by process {os.getpid()}\."):
        SqliteStore(path)
    store.close()
    assert waiting(path, "backup") == 3


def test_a_file_whose_locks_a_copy_in_the_same_process_has_ended_can_be_opened_again(
    path: Path, store: SqliteStore, cue: Scheduler
) -> None:
    """POSIX: whoever closes a file loses all locks that the process has on it."""
    shutil.copy(path, path.with_name("copy"))
    assert waiting(path, "default") == 1


def test_a_file_that_is_moved_away_for_a_backup_has_what_was_stored_last(
    path: Path, store: SqliteStore, cue: Scheduler
) -> None:
    path.rename(path.with_name("old.db"))
    os.replace(backup_of(path, 1), path)
    store.close()
    assert waiting(path.with_name("old.db"), "default") == 1
    assert waiting(path, "backup") == 1


def test_a_file_that_is_put_back_after_the_end_has_what_was_stored_last(
    path: Path, store: SqliteStore, cue: Scheduler
) -> None:
    path.rename(path.with_name("away"))
    store.close()
    path.with_name("away").rename(path)
    assert waiting(path, "default") == 1


def test_a_log_that_the_new_file_uses_is_left_alone(
    path: Path, store: SqliteStore, cue: Scheduler
) -> None:
    replace(path)
    with closing(apsw.Connection(str(path))) as other:
        before = log_of(path).read_bytes()
        store.close()
        assert log_of(path).read_bytes() == before
        assert other.execute("SELECT count(*) FROM queues").get == 1


def test_no_file_is_made_beside_the_log_of_one_that_is_gone(
    path: Path, store: SqliteStore, cue: Scheduler
) -> None:
    path.unlink()
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    for empty in (False, True):
        if empty:
            path.touch()
        with pytest.raises(StoreUnusable, match="the file is gone or empty, but"):
            SqliteStore(path)
        assert path.exists() == empty
    path.unlink()
    store.close()
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before
    with pytest.raises(StoreUnusable, match="remove .*put the backup in place, start again"):
        SqliteStore(path)
    delete_all(path)
    assert waiting(path, "default") == 0


def test_the_log_of_a_linked_file_is_guarded_and_has_a_turnstile(
    path: Path, store: SqliteStore, tmp_path: Path
) -> None:
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "link.db"
    link.symlink_to(path)
    with Scheduler(f"sqlite:///{link}") as linked:
        linked.schedule()
        assert linked.store.db._turnstile._file is not None  # type: ignore[attr-defined]
        log_of(path).unlink()
        with pytest.raises(StoreUnusable, match="write-ahead log"):
            linked.schedule()


def test_the_log_of_a_replaced_file_behind_a_link_is_not_written_over_the_backup(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "LOOK_SECONDS", 0.0)
    SqliteStore(path).close()
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "link.db"
    link.symlink_to(path)
    with Scheduler(f"sqlite:///{link}") as linked:
        linked.schedule()
        os.replace(backup_of(path, 3000), path)
        with pytest.raises(StoreUnusable) as refused:
            linked.schedule()
    assert f"remove {path}-wal and {path}-shm, put" in str(refused.value)
    assert waiting(path, "backup") == 3000
    assert waiting(path, "default") == 0


def test_the_log_of_a_file_to_which_a_link_no_longer_points_is_left_alone(
    path: Path, tmp_path: Path
) -> None:
    SqliteStore(path).close()
    backup = backup_of(path, 1)
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "link.db"
    link.symlink_to(path)
    with Scheduler(f"sqlite:///{link}") as linked:
        linked.schedule()
        link.unlink()
        link.symlink_to(backup)
    assert waiting(path, "default") == 1
    assert waiting(backup, "backup") == 1
