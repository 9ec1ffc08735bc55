"""`oncue bench`: what it shows; what it measures is tested with the benchmark itself."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from oncue.cli import bench
from oncue_bench.report import Report, Row
from oncue_bench.run import WORKS
from oncue_bench.terminal import NAMES, show

from .terminal import SOURCE, run, shell

BENCH = SOURCE.parent / "bench"


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


EXTRAS = ("psycopg", "psycopg_pool", "uvicorn", "boto3", "botocore", "celery")


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of programs that find only what oncue itself needs."""
    lines = f"import sys\nsys.modules.update(dict.fromkeys({EXTRAS!r}))\n"
    (tmp_path / "sitecustomize.py").write_text(lines)
    return {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(SOURCE), str(BENCH)])}


def test_parts_that_need_no_more_than_oncue_are_measured_without_more(
    tmp_path: Path, bare: dict[str, str]
) -> None:
    lines = [f"import oncue_bench.{name}" for name in [*WORKS.values(), "__main__", "terminal"]]
    lines += ["from oncue_bench.processes import measure", "assert measure('idle').peak_kib"]
    ended = shell(f"{sys.executable} -c {shlex.quote(chr(10).join(lines))}", cwd=tmp_path, env=bare)
    assert (ended.code, ended.err) == (0, "")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (
            "oncue bench --only W5",
            "W5 of the benchmark needs uvicorn, which is not installed. 'make bench' installs what "
            "it needs; for this Python: pip install uvicorn. Other parts can be measured without "
            "it: --only",
        ),
        (
            f"{sys.executable} -m oncue_bench --store postgresql",
            "W15 of the benchmark needs psycopg and psycopg_pool, which are not installed. "
            "'make bench' installs what it needs; for this Python: pip install 'psycopg[binary]' "
            "psycopg-pool",
        ),
    ],
)
def test_a_missing_module_is_one_line_before_anything_is_measured(
    tmp_path: Path, bare: dict[str, str], command: str, told: str
) -> None:
    ended = shell(command, cwd=tmp_path, env=bare)
    assert (ended.code, ended.out, ended.err) == (1, "", f"Error: {told}\n")


@pytest.mark.parametrize("store", ["sqlite", "hostile"])
def test_make_bench_installs_what_the_benchmark_needs(tmp_path: Path, store: str) -> None:
    command = f"make --directory={SOURCE.parent} --dry-run bench VENV={tmp_path} STORE={store}"
    ended = shell(command, cwd=tmp_path)
    assert "install --editable '.[dev]'" in ended.out


def test_an_installed_package_says_where_the_benchmark_is(tmp_path: Path) -> None:
    site = tmp_path / "lib" / "site-packages"
    site.mkdir(parents=True)
    (site / "oncue").symlink_to(SOURCE / "oncue")
    ended = shell("oncue bench", cwd=tmp_path, env={"PYTHONPATH": str(site)})
    assert ended.code == 1
    assert "not part of the installed package. Clone oncue's repository" in ended.err
    assert "make bench" in ended.err
