"""The kill run in the small form that every change must survive."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.kills import KillRun


def test_without_kills_every_job_is_delivered_exactly_once(tmp_path: Path) -> None:
    card = KillRun(tmp_path, jobs=1_000, kills=0, seconds=120).run()
    assert card.green, str(card)
    assert not card.duplicates


def test_nothing_is_lost_early_or_unexpected_under_kills(tmp_path: Path) -> None:
    card = KillRun(tmp_path, jobs=2_000, kills=10, seconds=180).run()
    assert card.green, str(card)
