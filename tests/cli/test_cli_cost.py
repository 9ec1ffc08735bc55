"""`oncue cost`: what a load costs on AWS."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .terminal import environment, run, see, shell


def test_the_alternatives_stand_side_by_side_with_bars(tmp_path: Path) -> None:
    ended = run("cost", "--jobs-per-day", "1M", "--keep-days", "0", cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    first, _, head, *lines = ended.out.splitlines()
    assert first == (
        "1,000,000 jobs a day, 30,000,000 a month, in us-east-1. oncue on DynamoDB, SQS, Lambda: "
        "$47.71 a month, $1.59 per million jobs."
    )
    assert head.split() == ["a", "month", "per", "million", "jobs"]
    assert lines[0].split() == [
        "oncue",
        "on",
        "DynamoDB,",
        "SQS,",
        "Lambda",
        "$47.71",
        "$1.59",
        "▋",
    ]
    assert lines[1].split() == ["EventBridge", "Scheduler,", "SQS", "$44.40", "$1.48", "▋"]
    assert lines[2].split() == f"Step Functions waits, SQS $1,514.40 $50.48 {'█' * 20}".split()
    assert lines[3].startswith("oncue on RDS PostgreSQL, one zone ")
    assert lines[4].startswith("oncue on RDS PostgreSQL, Multi-AZ ")
    assert list(tmp_path.iterdir()) == []


def test_the_parts_and_what_was_assumed_are_below(tmp_path: Path) -> None:
    out = run("cost", "--jobs-per-day", "1M", "--keep-days", "0", cwd=tmp_path).out
    [writes] = [line for line in out.splitlines() if line.startswith("DynamoDB writes, jobs")]
    assert writes.split()[3:8] == ["$37.50", "60", "M", "write", "units"]
    assert writes.endswith("$0.625 per million write units")
    assert "EventBridge Scheduler, SQS: Scheduler invocations $30.00, SQS requests $14.40" in out
    assert "- A month is 30 days." in out
    assert "takes 2 write units and 1.5 read units" in out
    assert "- Left out: " in out


@pytest.mark.parametrize("jobs", ["1M", "1m", "1000k", "1,000,000", "1_000_000", "0.001G"])
def test_numbers_are_read_as_people_write_them(tmp_path: Path, jobs: str) -> None:
    told = run("cost", "--jobs-per-day", jobs, "--payload-bytes", "2KB", "--json", cwd=tmp_path)
    assert told.json["load"]["jobs_per_day"] == 1_000_000
    assert told.json["load"]["payload_bytes"] == 2048


def test_as_json_everything_is_there(tmp_path: Path) -> None:
    given = [
        "--jobs-per-day=100k",
        "--pulled",
        "--heartbeats=2",
        "--key",
        "--region=eu-central-1",
        "--json",
    ]
    told = run("cost", *given, cwd=tmp_path).json
    assert told["region"] == "eu-central-1"
    assert told["jobs_per_month"] == 3_000_000
    assert told["units_per_job"] == {"writes": 16, "reads": 4.5}
    assert told["load"]["pulled"] is True
    names = [one["name"] for one in told["alternatives"]]
    assert names == ["dynamodb", "eventbridge_scheduler", "step_functions", "rds", "rds_multi_az"]
    ours = told["alternatives"][0]
    assert ours["dollars_per_million_jobs"] == pytest.approx(
        ours["dollars_per_month"] / 3, abs=1e-3
    )
    parts = sum(part["dollars_per_month"] for part in ours["parts"])
    assert parts == pytest.approx(ours["dollars_per_month"], abs=1e-3)
    price = told["prices"][ours["parts"][0]["price"]]
    assert (price["dollars"], price["per"], price["unit"]) == (0.7625, 1_000_000, "write units")
    assert price["source"].startswith("https://")
    assert told["assumptions"]
    assert told["warnings"] == []


def test_free_tiers_are_taken_off_if_asked(tmp_path: Path) -> None:
    told = run("cost", "--jobs-per-day=400k", "--free-tier", "--json", cwd=tmp_path).json
    scheduler = told["alternatives"][1]
    assert scheduler["parts"][0]["dollars_per_month"] == 0


def test_a_load_that_is_too_large_is_warned_of(tmp_path: Path) -> None:
    out = run("cost", "--jobs-per-day", "1G", cwd=tmp_path).out
    assert "Warning: 11,574 jobs/s are more than 4 shards can take" in out
    assert "oncue on RDS PostgreSQL, one zone (too small?)" in out


@pytest.mark.parametrize(
    ("columns", "bar", "per_million", "price"),
    [(45, 0, False, False), (65, 0, True, False), (80, 16, True, False), (120, 20, True, True)],
)
def test_a_narrow_terminal_loses_columns_and_no_line_is_broken(
    tmp_path: Path, columns: int, bar: int, per_million: bool, price: bool
) -> None:
    ended = see("cost", "--jobs-per-day", "1M", cwd=tmp_path, columns=columns, lines=100)
    assert ended.code == 0
    lines = ended.out.splitlines()
    [place] = [n for n, line in enumerate(lines) if line.startswith("EventBridge Scheduler, SQS  ")]
    assert lines[place - 1].startswith("oncue on DynamoDB, SQS, Lambda ")
    steps = lines[place + 1]
    assert steps.startswith("Step Functions waits, SQS ")
    assert steps.count("█") == bar
    assert ("$50.48" in steps) is per_million
    assert ("$0.625 per million write units" in ended.out) is price
    assert "…" not in ended.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("", "Missing option '--jobs-per-day'"),
        ("--jobs-per-day many", "'many' is not a number of jobs. Write 250000, 100k or 1M."),
        ("--jobs-per-day 0", "'0' is out of range. Give 1 to 100,000,000,000 jobs."),
        ("--jobs-per-day 1.5", "'1.5' is not a whole number of jobs. Round it."),
        ("--jobs-per-day 1T", "Write 250000, 100k or 1M."),
        ("--jobs-per-day 1k --payload-bytes 1MB", "'1MB' is out of range. Give 0 to 262,144 bytes"),
        ("--jobs-per-day 1k --payload-bytes big", "Write 500, 2KB or 64KB"),
        ("--jobs-per-day 1k --keep-days nan", "is not a finite number"),
        ("--jobs-per-day 1k --queues 0", "--queues"),
        ("--jobs-per-day 1k --region mars", "'us-east-1', 'eu-central-1'"),
        ("--jobs-per-day 1k --heartbeats 1", "--heartbeats goes with --pulled: sinks send none."),
        ("--jobs-per-day 1k --workers 2", "--workers goes with --pulled: sinks need none."),
        ("--jobs-per-day 1k --pulled --dispatch serve", "leave it out, or leave out --pulled"),
        ("--jobs-per-day 1k --store memory:", "No such option"),
    ],
)
def test_bad_input_is_named(tmp_path: Path, arguments: str, said: str) -> None:
    ended = run("cost", *arguments.split(), cwd=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


def test_a_reader_may_stop_reading(tmp_path: Path) -> None:
    ended = shell("oncue cost --jobs-per-day 1M | head -1", cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")


def test_neither_a_store_nor_an_aws_library_is_imported(tmp_path: Path) -> None:
    program = (
        "import sys; sys.argv = ['oncue', 'cost', '--jobs-per-day', '1M']\n"
        "from oncue.cli import main\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code\n"
        "print(*sorted({'apsw', 'boto3', 'botocore', 'asyncio', 'oncue.scheduler'} "
        "& set(sys.modules)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.splitlines()[-1] == ""
