"""The logs of a run: they survive the death of whoever writes them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.proof.entries import Declined, Entry, Looked, Ranged, Received, Struck, Taken, Wrote
from tests.proof.logs import AskLog, RunLog

DUE = 10_000


def test_the_logs_give_back_what_was_recorded(tmp_path: Path) -> None:
    asks, log = AskLog(tmp_path / "asks"), RunLog(tmp_path / "log")
    for job_id in ("a", "b", "c"):
        asks.invoked(job_id, at=1, due_at=DUE, expires_at=DUE + 9)
    asks.acknowledged("a")
    asks.acknowledged("b")
    asks.cancelled("b")
    asks.failed("c")
    asks.moved("a", DUE + 1)
    entries: list[Entry] = [
        Taken("a", 1, 1, "ada", 0.0, 10.0, None, 1),
        Received("a", 1, DUE, "ada"),
        Wrote("a", 1, "complete", None, 0.5),
        Looked("out", 0.0),
        Ranged("out#0", 1, ("b", "c"), "bob", 0.0, 10.0),
        Declined("a"),
        Struck("ada", "stop"),
    ]
    log.record(*entries)
    history = asks.read()
    assert (history.jobs["a"].due_at, history.jobs["a"].expires_at) == (DUE + 1, DUE + 9)
    assert history.jobs["b"].cancelled
    assert not history.jobs["c"].may_arrive
    assert log.read() == entries


def test_a_log_nobody_wrote_is_empty(tmp_path: Path) -> None:
    assert RunLog(tmp_path / "none").read() == []
    assert AskLog(tmp_path / "none").read().jobs == {}


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "log")
    log.record(Received("a", 1, DUE), Received("b", 1, DUE))
    os.truncate(log.log.path, log.log.path.stat().st_size - 3)
    assert log.read() == [Received("a", 1, DUE)]


def test_the_next_process_strikes_out_the_line_that_the_last_one_tore(tmp_path: Path) -> None:
    path = tmp_path / "log"
    dead = RunLog(path)
    dead.record(Received("a", 1, DUE), Received("b", 1, DUE))
    os.truncate(path, path.stat().st_size - 3)
    RunLog(path).record(Received("c", 1, DUE))
    assert dead.read() == [Received("a", 1, DUE), Received("c", 1, DUE)]


def test_two_writers_share_one_log(tmp_path: Path) -> None:
    one, other = RunLog(tmp_path / "log"), RunLog(tmp_path / "log")
    entries = [Received(job_id, 1, DUE) for job_id in "abc"]
    one.record(entries[0])
    other.record(entries[1])
    one.record(entries[2])
    assert one.read() == entries


def test_a_whole_line_that_makes_no_sense_is_an_error(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "log")
    log.log.append(["heard", "a"])
    with pytest.raises(ValueError, match="nobody writes such a line"):
        log.read()
