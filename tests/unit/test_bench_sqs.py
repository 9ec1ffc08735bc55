"""W13, the benchmark of SQS and Lambda: what it needs no server for."""

from __future__ import annotations

from pathlib import Path

from oncue.clock import SystemClock
from oncue.sinks.sqs import SqsSink
from oncue.sinks.sqs_address import SqsAddress
from oncue_bench import __main__ as command
from oncue_bench.report import Report, Row
from oncue_bench.sizes import DEFAULT, FULL
from oncue_bench.sqs import section, sending

PAGE = "# Benchmarks\n\n## W12: x\n\ntwelve\n\n## Missed\n\nnothing\n\n## Repeat it\n\nagain\n"


def _report() -> Report:
    machine = {"cores": 2, "processor": "abacus", "memory_gib": 1, "python": "3.11", "load": 0.0}
    tasks = {"jobs/s": 250.0, "ms of CPU a job": 0.9}
    rows = [
        Row("W13", "messages", "messages/s", 900, 1000, ratio=0.9, goal="≥ 0.8", reached=True),
        Row("W13", "tasks", "s", 40, goal="all", reached=True, more=tasks, peak_mib=20),
    ]
    return Report(machine, {"store": "sqs"}, rows)


def test_only_its_section_is_written(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text(PAGE, "utf-8")
    for _ in range(2):
        command._write(_report(), "sqs", page)
    text = page.read_text("utf-8")
    assert text.count(section.TITLE) == 1
    assert "| messages | 900/s | 1,000/s raw | 0.90 |" in text
    assert "| tasks | 40.00 s | 250/s, 0.90 ms of CPU a job |" in text
    before, _, rest = text.partition(section.TITLE)
    assert before == PAGE.partition("## Missed")[0]
    assert rest.endswith(PAGE.partition("## Missed")[2])


def test_sqs_can_be_asked_for() -> None:
    assert command._parser().parse_args(["--store", "sqs"]).store == "sqs"
    assert (FULL.sqs_tasks, DEFAULT.sqs_tasks) == (100_000, 10_000)


def test_the_calls_of_the_plain_loop_are_those_of_the_sink() -> None:
    client = sending.InstantClient(keeping=True)
    now = 1_000_000
    sink = SqsSink(SqsAddress("q"), SystemClock(), client)
    sending._deliver(sink, sending._batches(25, now))
    sink.close()
    assert client.messages == 25
    assert sorted(map(len, client.calls)) == [5, 10, 10]
