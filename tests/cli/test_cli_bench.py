"""`oncue bench`: what it shows; what it measures is tested with the benchmark itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from oncue.cli import bench
from oncue_bench.report import Report, Row
from oncue_bench.run import WORKS
from oncue_bench.terminal import NAMES, show

from .terminal import SOURCE, run, shell


def test_rows_are_shown_with_raw_ratio_and_goal(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_the_command_knows_every_work_of_the_benchmark() -> None:
    assert bench.WORKS == list(WORKS) == list(NAMES)


def test_a_clone_has_the_benchmark_beside_the_package(tmp_path: Path) -> None:
    look = "from oncue.cli import bench; assert bench._found(); import oncue_bench.terminal"
    ended = shell(f"{sys.executable} -c '{look}'", cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")


def test_an_installed_package_says_where_the_benchmark_is(tmp_path: Path) -> None:
    site = tmp_path / "lib" / "site-packages"
    site.mkdir(parents=True)
    (site / "oncue").symlink_to(SOURCE / "oncue")
    ended = shell("oncue bench", cwd=tmp_path, env={"PYTHONPATH": str(site)})
    assert ended.code == 1
    assert "not part of the installed package. Clone oncue's repository" in ended.err
    assert "make bench" in ended.err
