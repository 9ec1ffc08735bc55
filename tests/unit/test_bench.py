"""The benchmark, in a tiny form: that it measures everything it says and can say it. What it finds
is of no interest here."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from oncue_bench import __main__ as command
from oncue_bench import cold_imports, machine, processes, rendering
from oncue_bench.report import Report, Row
from oncue_bench.run import ON, run
from oncue_bench.sizes import DEFAULT, QUICK, Sizes
from tests import program

TINY = Sizes(
    rounds=1,
    single=20,
    single_rounds=1,
    crowds=(4,),
    crowd_jobs=40,
    bulk=200,
    burst=200,
    large=300,
    large_rounds=1,
    pending=(200,),
    timed=5,
    timed_seconds=0.1,
    timed_rounds=2,
    lead_seconds=0.3,
    idle_seconds=0.1,
    few=100,
    many=200,
    rules=(10, 50),
    events_single=20,
    events_listed=40,
    schedules=(10, 30),
    schedule_rounds=1,
    posts=20,
    connections=4,
    batch=200,
    worked=20,
    waiters=(2,),
    waited=5,
    waited_seconds=0.1,
    stuck=20,
    beaters=5,
    beats=2,
    cancelled=300,
    table_lives=10,
    table_jobs=100,
    table_due=100,
    table_date=100,
    table_pending=(10, 50),
    sqs_messages=100,
    sqs_own=200,
    sqs_tasks=60,
    sqs_due=60,
    sqs_timed=5,
    sqs_seconds=0.5,
    sqs_sent=10,
    sqs_captured=50,
    celery_sent=10,
    celery_captured=50,
    pg_rounds=1,
    pg_single_rounds=1,
    pg_crowd_jobs=128,
    pg_bulk=200,
    pg_burst=200,
    pg_large=300,
    pg_shared=200,
    pg_pending=200,
    pg_idle_seconds=0.1,
    pg_gone=50,
    pg_claims=5,
)
ROWS = {
    "W1": 5,
    "W2": 16,
    "W3": 8,
    "W4": 5,
    "W5": 10,
    "W6": 4,
    "W7": 4,
    "W8": 3,
    "W9": 5,
    "W10": 2,
    "W11": 17,
    "W12": 2 * len(cold_imports.existing()),
    "W13": 11,
    "W14": 3,
    "W15": 23,
}


class Forked:
    """What the benchmark asks of `subprocess`: `python -m MODULE …`."""

    @staticmethod
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return program.run(*command[3:], module=command[2], cwd=Path.cwd(), env=os.environ)


@pytest.mark.slow
@pytest.mark.parametrize(("store", "work"), [(store, work) for store in ON for work in ON[store]])
def test_a_work_is_measured_and_compared(store, work, tmp_path, monkeypatch):
    """The processes that measure are forked: what the start of an interpreter costs is no matter
    here. `test_a_measurement_that_fails_says_why` starts one as the benchmark does. They themselves
    start servers and receivers as always."""
    monkeypatch.setattr(machine, "disk_folder", lambda: tmp_path)
    monkeypatch.setattr(processes, "subprocess", Forked)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):  # W11 and W13 would set them
        monkeypatch.setenv(name, "any")

    report = run(TINY, [work], store=store)

    assert len(report.rows) == ROWS[work]
    for row in report.rows:
        assert row.work == work
        assert row.product > 0
        assert (row.ratio is None) or row.ratio > 0
        assert row.reached is None or row.goal
    assert not tmp_path.exists()  # nothing is left behind


def test_every_work_of_the_benchmark_has_a_goal_that_is_judged():
    assert {work for works in ON.values() for work in works} == set(ROWS)


def _report():
    return Report(
        machine={
            "processor": "abacus",
            "cores": 2,
            "memory_gib": 1.0,
            "system": "Linux",
            "python": "3.11",
            "sqlite": "3.54",
            "msgspec": "0.19",
            "file_system": "ext4",
            "load": 0.0,
        },
        settings={"rounds": 1},
        rows=[
            Row("W1", "in bulk", "jobs/s", 100_000, 200_000, ratio=0.5, spread=(0.4, 0.6),
                goal="≥ 0.4 × raw", reached=True, peak_mib=12.3, peak_goal_mib=80),
            Row("W2", "a greedy burst", "jobs/s", 9.0, 10.0, ratio=0.9, goal="≥ 0.4 × raw",
                reached=True, peak_mib=99, peak_goal_mib=80),
            Row("W3", "p50", "ms", 1.5, goal="≤ 1 ms", reached=False),
            Row("W4", "only a figure", "jobs/s", 1.0),
        ],
        seconds=90.0,
    )  # fmt: skip


def test_a_goal_is_met_only_with_its_memory_goal():
    assert [row.met for row in _report().rows] == [True, False, False, None]


def test_the_table_shows_every_row_and_counts_the_goals():
    text = rendering.as_table(_report())
    assert "100,000/s" in text
    assert "200,000/s raw" in text
    assert "12 (≤ 80)" in text
    assert "1 of 3 goals met" in text


def test_the_page_tells_the_misses_and_how_to_repeat_it():
    page = rendering.as_markdown(_report())
    missed = page.partition("## Missed")[2]
    assert "a greedy burst" in missed
    assert "p50" in missed
    assert "in bulk" not in missed
    assert "make bench SIZE=quick" in page
    assert "abacus" in page


def test_every_store_is_named_where_the_page_tells_how_to_repeat_it():
    page = rendering.as_markdown(_report()).partition("## Repeat it")[2]
    written = _written().partition("## Repeat it")[2]
    assert page == re.sub(r"took \d+ minutes here", "took 2 minutes here", written)
    for store, works in ON.items():
        assert store == "sqlite" or f"make bench STORE={store} " in page
        assert store == "sqlite" or f"# {next(iter(works))}, " in page


def _written():
    return (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text("utf-8")


def test_the_json_is_one_document(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(command, "run", lambda sizes, only, progress, store: _report())
    page = tmp_path / "benchmarks.md"
    page.write_text("# Old\n\n## W1: a\n\nold\n\n## W11: b\n\nkept\n\n## Missed\n", "utf-8")

    assert command.main(["--json", "--only", "W2", "--write", str(page)]) == 0

    document = json.loads(capsys.readouterr().out)
    assert document["missed"] == 2
    assert document["rows"][0]["met"] is True
    assert document["machine"]["cores"] == 2
    written = page.read_text("utf-8")
    assert written.startswith("# Benchmarks")
    assert re.findall("^## (W.*)", written, re.MULTILINE) == [
        *("W1: scheduling", "W2: a burst", "W3: precision", "W4: growth", "W11: b"),
    ]
    assert "\n\n## W11: b\n\nkept\n\n## Missed\n" in written


@pytest.mark.parametrize(
    ("arguments", "large", "rounds"),
    [
        ([], 1_000_000, DEFAULT.rounds),
        (["--n", "7"], 7, DEFAULT.rounds),
        (["--quick"], None, QUICK.rounds),
    ],
)
def test_the_arguments_choose_the_sizes(arguments, large, rounds, monkeypatch, capsys):
    seen = []

    def run(sizes, only, progress, store):
        seen.append(sizes)
        return _report()

    monkeypatch.setattr(command, "run", run)
    command.main(arguments)
    assert (seen[0].large, seen[0].rounds) == (large, rounds)
    assert "goals met" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("store", "work", "said"),
    [
        ("postgresql", "W3", "W3 is not measured on postgresql, but with --store sqlite"),
        ("postgresql://a@b/c", "W3", "(postgresql has W15)"),
        ("sqlite", "W15", "W15 is not measured on sqlite, but with --store postgresql"),
        ("sqs", "W99", "invalid choice: 'W99'"),
    ],
)
def test_a_part_that_the_store_does_not_have_is_refused(store, work, said, capsys):
    with pytest.raises(SystemExit, match="2"):
        command.main(["--store", store, "--only", work])
    assert said in capsys.readouterr().err


def test_a_part_of_another_store_can_be_chosen(monkeypatch):
    seen = []

    def run(sizes, only, progress, store):
        seen.append((only, store))
        return _report()

    monkeypatch.setattr(command, "run", run)
    command.main(["--store", "sqs", "--only", "W13"])
    assert seen == [(["W13"], "sqs")]


def test_a_measurement_that_fails_says_why():
    with pytest.raises(processes.MeasurementFailed, match="KeyError"):
        processes.measure("nonsense")
