"""The benchmark of schedules, in a tiny form: that it measures what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncue.bench import schedules


def test_every_schedule_makes_its_job_and_the_cost_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(schedules, "disk_folder", lambda: tmp_path)
    assert schedules.measure(tmp_path, 30).made == 30
    assert schedules.main(["20", "40"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[0] == "schedules"
    assert [row.split()[0] for row in rows] == ["20", "40"]
    assert not tmp_path.exists(), "nothing is left behind"
