from __future__ import annotations

import logging

import pytest

from oncue.clock import FakeClock
from oncue.core.errors import InvalidInput, SinkDown
from oncue.core.job import Delivery
from oncue.ports.sink import Refusal
from oncue.sinks import open_sink
from oncue.sinks.log import LogSink
from oncue.sinks.memory import MemorySink, named


def test_sinks_are_found_by_their_url() -> None:
    assert isinstance(open_sink("log:"), LogSink)
    some, other = named("some"), named("other")
    assert some is not other
    assert (open_sink("memory:some"), open_sink("memory:other")) == (some, other)


def test_a_memory_sink_is_there_only_if_the_program_has_made_it() -> None:
    with pytest.raises(InvalidInput, match="memory sinks are for tests") as refused:
        open_sink("memory:nobody-made-this")
    assert refused.value.pointer == "/sink"


@pytest.mark.parametrize("url", ["", "log", "log:x", "memory:", "file:///etc/passwd"])
def test_an_unknown_sink_is_refused_with_the_names_of_those_that_exist(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"'sqs://QUEUE.*'log:'") as caught:
        open_sink(url)
    assert caught.value.pointer == "/sink"


def test_the_log_sink_writes_one_line_per_job_with_its_lateness(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "oncue.sink.log")
    LogSink(FakeClock(1_500)).deliver("mail", [Delivery("a", 1_000, b"secret", 2, "token")])
    assert [record.getMessage() for record in caplog.records] == [
        "delivered queue=mail job=a attempt=2 late_ms=500"
    ]


def test_the_memory_sink_keeps_a_bounded_number_and_counts_all() -> None:
    sink = MemorySink(kept=2)
    sink.deliver("mail", [Delivery(job_id, 0, b"", 1) for job_id in "abc"])
    assert [job.id for job in sink.deliveries] == ["b", "c"]
    assert sink.counts == {"mail": 3}


def test_the_memory_sink_can_count_without_keeping() -> None:
    sink = MemorySink(counting=True)
    sink.deliver("mail", [Delivery("a", 0, b"", 1)])
    assert len(sink.deliveries) == 0
    assert sink.counts == {"mail": 1}


def test_scripted_failures_of_the_memory_sink_come_one_after_the_other() -> None:
    sink = MemorySink()
    sink.fail_next(SinkDown("first"))
    sink.fail_next(SinkDown("second"))
    for message in ("first", "second"):
        with pytest.raises(SinkDown, match=message):
            sink.deliver("mail", [Delivery("a", 0, b"", 1)])
    assert sink.deliver("mail", [Delivery("a", 0, b"", 1)]) == {}


def test_the_memory_sink_refuses_a_job_until_told_to_accept_it() -> None:
    sink = MemorySink()
    refusal = Refusal("full", permanent=False)
    sink.refuse("b", refusal)
    batch = [Delivery(job_id, 0, b"", 1) for job_id in "ab"]
    assert sink.deliver("mail", batch) == {1: refusal}
    sink.accept("b")
    assert sink.deliver("mail", batch) == {}
