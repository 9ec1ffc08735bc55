"""The file is deleted, replaced or moved under a process that uses it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from oncue import Scheduler, StoreUnusable
from oncue.clock import FakeClock
from oncue.stores.sqlite import SqliteStore, presence

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
        lambda: store.submit(cue.schedule).result(SOON),
        store.describe,
    ):
        with pytest.raises(StoreUnusable, match=r"was deleted or replaced while it was in use"):
            call()
    assert path.exists() == (trouble not in (delete, delete_all))  # and nothing comes back empty


def test_what_is_written_while_the_file_goes_is_not_acknowledged(
    path: Path, store: SqliteStore, cue: Scheduler
) -> None:
    def write_and_delete() -> None:
        cue.schedule("during")
        path.unlink()

    with pytest.raises(StoreUnusable):
        store.db.writer.run(write_and_delete)
    with pytest.raises(StoreUnusable):
        store.submit(cue.schedule).result(SOON)


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
