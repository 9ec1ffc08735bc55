"""W15, the benchmark of the PostgreSQL store: what it needs no server for."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncue.core.redaction import shown_url
from oncue_bench import __main__ as command
from oncue_bench.postgresql import place, section, work
from oncue_bench.processes import Measured
from oncue_bench.report import Report, Row
from oncue_bench.rounds import Ground
from oncue_bench.sizes import DEFAULT, FULL, QUICK

PAGE = "# Benchmarks\n\n## W14: x\n\nfourteen\n\n## Missed\n\nnothing\n\n## Repeat it\n\nagain\n"
URL = "postgresql://ada@db.example.org/jobs"


def _report() -> Report:
    machine = {"cores": 2, "processor": "abacus", "memory_gib": 1, "python": "3.11", "load": 3.5}
    rows = [
        Row("W15", "burst", "jobs/s", 600, 1000, ratio=0.6, goal="≥ 0.5 × raw", reached=True),
        Row("W15", "lateness p50", "ms", 1.5, 0.9, goal="≤ 2 ms", reached=True),
    ]
    return Report(machine, {"store": URL}, rows)


def _ground() -> Ground:
    return Ground(DEFAULT, Path(), 0, lambda text: None)


def test_only_its_section_is_written_and_tells_of_the_load(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text(PAGE, "utf-8")
    for _ in range(2):
        command._write(_report(), URL, page)
    text = page.read_text("utf-8")
    assert text.count(section.TITLE) == 1
    assert "| burst | 600/s | 1,000/s raw | 0.60 |" in text
    assert "load 3.5" in text
    before, _, rest = text.partition(section.TITLE)
    assert before == PAGE.partition("## Missed")[0]
    assert rest.endswith(PAGE.partition("## Missed")[2])


@pytest.mark.parametrize("store", ["postgresql", URL])
def test_postgresql_can_be_asked_for_by_name_or_url(store: str) -> None:
    assert command._parser().parse_args(["--store", store]).store == store


def test_growth_is_measured_only_at_full_size() -> None:
    assert (QUICK.pg_large, DEFAULT.pg_large, FULL.pg_large) == (None, None, 1_000_000)
    assert (DEFAULT.pg_pending, FULL.pg_pending) == (100_000, 1_000_000)


def test_a_named_server_is_used_as_it_is(tmp_path: Path) -> None:
    with place.server(URL, tmp_path) as url:
        assert url == URL
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("late", "bare", "met"), [(4.9, 0.5, True), (9.0, 6.5, True), (9.0, 5.0, False)]
)
def test_lateness_may_be_that_of_the_goal_or_of_raw(late: float, bare: float, met: bool) -> None:
    found = Measured({"lateness_ms": [late] * 100, "idle_cpu_percent": 0.1}, 0)
    _, p99, earliest, idle = work._on_time("sink", found, [bare] * 100, _ground())
    assert (p99.met, earliest.met, idle.met) == (met, True, True)


def test_a_job_before_its_time_is_a_miss() -> None:
    found = Measured({"lateness_ms": [1.0] * 99 + [-0.1], "idle_cpu_percent": 0.1}, 0)
    *_, earliest, _ = work._on_time("sink", found, [1.0], _ground())
    assert earliest.met is False


def test_only_the_product_has_to_stay_as_fast_with_more_jobs() -> None:
    small = {kind: [Measured({"count": 100, "seconds": 1.0}, 0)] for kind in ("raw", "gone")}
    large = {kind: [Measured({"count": 100, "seconds": 2.0}, 0)] for kind in ("raw", "gone")}
    raw, product = work._grown(100, small, 1000, large)
    assert (raw.ratio, raw.goal, raw.met) == (0.5, "", None)
    assert (product.ratio, product.met) == (0.5, False)


def test_a_report_shows_no_password() -> None:
    assert "secret" not in shown_url("postgresql://ada:secret@db.example.org/jobs")
