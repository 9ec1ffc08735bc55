"""`oncue bench`: what it shows; what it measures is tested with the benchmark itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from .terminal import run

pytest.importorskip("oncue.bench.run")


def test_rows_are_shown_with_raw_ratio_and_goal(capsys: pytest.CaptureFixture[str]) -> None:
    from oncue.bench.report import Report, Row
    from oncue.cli.bench import show

    machine = {"cores": 2, "processor": "x", "file_system": "ext4", "python": "3.11"}
    report = Report({**machine, "sqlite": "3.54", "load": 0.1}, {}, seconds=75)
    report.rows = [
        Row(
            "W1", "one by one", "jobs/s", 3000, 4000, ratio=0.75, goal="≥ 0.8 × raw", reached=False
        ),
        Row("W3", "lateness p99", "ms", 1.5, goal="≤ 3 ms", reached=True),
    ]
    show(report)
    out = capsys.readouterr().out
    assert "W1 scheduling" in out
    assert "3,000/s  4,000/s raw   0.75  ████████████" in out
    assert "MISSED" in out
    assert "W3 precision" in out
    assert "1.50 ms" in out
    assert "1 of 2 goals met, in 75 s." in out


def test_only_sqlite_can_be_measured(tmp_path: Path) -> None:
    ended = run("bench", "--store", "memory:", cwd=tmp_path)
    assert ended.code == 2
