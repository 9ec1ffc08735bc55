"""Workers and askers, killed at named points while they claim, settle, reclaim and ask."""

from __future__ import annotations

from pathlib import Path

from tests.integration.killing import KillRun


def test_nothing_is_lost_when_processes_are_killed_again_and_again(tmp_path: Path) -> None:
    card = KillRun(tmp_path, jobs=2000, kills=10).run()
    assert card.green, card


def test_and_nothing_is_done_twice_when_nobody_is_killed(tmp_path: Path) -> None:
    """The control: without faults the same run has no duplicates at all."""
    run = KillRun(tmp_path, jobs=500, kills=0)
    card = run.run()
    assert card.green, card
    assert (card.duplicates, run.deaths) == ((), 0)
