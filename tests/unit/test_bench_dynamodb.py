"""W11, the benchmark of the DynamoDB store: what it needs no server for."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncue.stores.dynamodb.address import TableAddress
from oncue_bench import __main__ as command
from oncue_bench.dynamodb import place, section, work
from oncue_bench.dynamodb.lives import LIVES
from oncue_bench.report import Report, Row
from oncue_bench.sizes import DEFAULT, FULL

PAGE = "# Benchmarks\n\n## W10: x\n\nten\n\n## Missed\n\nnothing\n\n## Repeat it\n\nagain\n"
URL = "dynamodb://jobs?region=eu-central-1&endpoint=http://localhost:8000"


def _report() -> Report:
    machine = {"cores": 2, "processor": "abacus", "memory_gib": 1, "system": "Linux"}
    machine |= {"file_system": "ext4", "python": "3.11", "sqlite": "3.54", "load": 0.0}
    rows = [
        Row("W11", "sink", "W", 2.5, goal="≤ 2.5 W", reached=True, more={"R": 1, "requests": 0.25}),
        Row("W11", "stored", "jobs/s", 900, 1000, ratio=0.9, goal="≥ 0.6 × raw", reached=True),
    ]
    more: dict[str, float] = {"started": 1000, "throttled": 70, "peak W": 990, "MiB": 3}
    rows.append(Row("W11", "one date", "s", 12, goal="1,000 started", reached=True, more=more))
    return Report(machine, {"store": URL, "table_lives": 500}, rows)


def test_the_section_has_costs_rates_and_capacity(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text(PAGE, "utf-8")
    section.write(_report(), page)
    text = page.read_text("utf-8")
    assert "| sink | 2.50 | 1.00 | 0.25 | ≤ 2.5 W | yes |" in text
    assert "| stored | 900/s | 1,000/s raw | 0.90 |" in text
    assert "| 100,000 due on one date | 50 |" in text
    assert "| one date | 12 s | 70 | 990 | 3 MiB | 1,000 | yes |" in text
    assert "http://localhost:8000" in text
    assert (tmp_path / "capacity.svg").read_text("utf-8").startswith("<svg")


def test_a_section_replaces_the_former_one_and_nothing_else() -> None:
    once = section.replaced(PAGE, f"{section.TITLE}\n\nfirst\n\n### more\n\nof it\n", section.TITLE)
    twice = section.replaced(once, f"{section.TITLE}\n\nsecond\n", section.TITLE)
    assert twice == PAGE.replace("## Missed", f"{section.TITLE}\n\nsecond\n\n## Missed")


def test_a_table_of_its_own_keeps_the_address() -> None:
    near = TableAddress.read(URL)
    assert TableAddress.read(place.url_of(near)) == near


def test_every_life_is_measured() -> None:
    assert set(work.LIVES) == set(LIVES)
    assert {name: LIVES[name].title for name in work.FLAT} == work.FLAT


@pytest.mark.parametrize("store", ["dynamodb", URL, "hostile", "sqlite"])
def test_a_store_is_a_kind_or_a_url(store: str) -> None:
    assert command._parser().parse_args(["--store", store]).store == store


def test_other_stores_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command._parser().parse_args(["--store", "oracle://x"])
    assert "dynamodb://TABLE" in capsys.readouterr().err


def test_full_is_larger() -> None:
    assert command._sizes(command._parser().parse_args(["--full"])) == FULL
    assert (FULL.table_due, FULL.table_pending) == (1_000_000, (10_000, 200_000))
    assert FULL.bulk == DEFAULT.bulk
