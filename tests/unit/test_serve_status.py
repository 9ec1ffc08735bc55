"""The status line of `oncue serve`."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from oncue import Scheduler
from oncue.cli import serve
from oncue.cli.progress import StatusLine
from oncue.stores.memory import MemoryStore


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING])
def test_jobs_are_counted_only_for_a_status_that_somebody_sees(
    level: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    counts: list[str] = []
    caplog.set_level(level, "oncue.serve")
    with Scheduler(MemoryStore()) as cue:
        cue.schedule()
        count = cue.store.stats

        def stats(name: str) -> Any:
            counts.append(name)
            return count(name)

        monkeypatch.setattr(cue.store, "stats", stats)
        line = StatusLine()
        line.shown = False
        serve._show(line, cue, cue.clock.monotonic())
    assert (counts == ["default"]) == ("1 scheduled" in caplog.text) == (level == logging.INFO)
