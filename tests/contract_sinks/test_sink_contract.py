"""What every sink must do, whatever its technology."""

from __future__ import annotations

import pytest

from oncue.core.errors import SinkDown
from oncue.core.job import Delivery
from tests.contract_sinks.receivers import Receiver


def jobs(*ids: str, attempt: int = 1, payload: bytes = b'{"n":1}') -> list[Delivery]:
    return [Delivery(job_id, 1_000, payload, attempt, owner="ada") for job_id in ids]


def in_order(receiver: Receiver) -> list[str]:
    return arrived(receiver, [job_id for job_id, _ in receiver.received()])


def arrived(receiver: Receiver, ids: list[str]) -> list[str]:
    """As they arrived; sorted, where the sink does not promise an order."""
    return ids if receiver.in_order else sorted(ids)


def test_a_batch_that_was_taken_is_answered_with_no_exception(receiver: Receiver) -> None:
    assert receiver.sink.deliver("mail", jobs("a", "b", "c")) == {}
    assert sorted(receiver.received()) == [("a", 1), ("b", 1), ("c", 1)]


def test_jobs_arrive_in_order(receiver: Receiver) -> None:
    receiver.sink.deliver("mail", jobs("c", "a", "b"))
    receiver.sink.deliver("mail", jobs("z", "y"))
    assert in_order(receiver) == arrived(receiver, ["c", "a", "b", "z", "y"])


def test_an_empty_batch_is_no_trouble(receiver: Receiver) -> None:
    assert receiver.sink.deliver("mail", []) == {}
    assert receiver.received() == []


def test_a_full_range_fits_into_one_batch(receiver: Receiver) -> None:
    ids = [f"job-{number:04}" for number in range(5000)]
    assert receiver.sink.deliver("mail", jobs(*ids)) == {}
    assert in_order(receiver) == arrived(receiver, ids)


def test_a_repeated_batch_is_taken_again_and_recognisable_by_id_and_attempt(
    receiver: Receiver,
) -> None:
    for _ in range(2):
        assert receiver.sink.deliver("mail", jobs("a", attempt=2)) == {}
    assert set(receiver.received()) == {("a", 2)}


def test_any_json_payload_is_taken(receiver: Receiver) -> None:
    for number, payload in enumerate(
        (b"null", b'""', '"ü☃ %s {}"'.encode(), b"[" * 50 + b"]" * 50)
    ):
        assert receiver.sink.deliver("mail", jobs(f"job-{number}", payload=payload)) == {}
    assert len(receiver.received()) == 4


def test_payloads_and_tokens_never_reach_the_log(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    receiver.sink.deliver("mail", [Delivery("a", 1_000, b'"pay-secret"', 1, "token-secret")])
    assert "secret" not in caplog.text


def test_a_sink_that_is_down_says_so_takes_nothing_and_recovers(receiver: Receiver) -> None:
    receiver.go_down()
    with pytest.raises(SinkDown):
        receiver.sink.deliver("mail", jobs("a"))
    assert receiver.received() == []
    assert receiver.sink.deliver("mail", jobs("a")) == {}
    assert receiver.received() == [("a", 1)]


@pytest.mark.parametrize("permanent", [True, False])
def test_a_refusal_names_the_position_and_spares_the_others(
    receiver: Receiver, permanent: bool
) -> None:
    receiver.refuse("b", permanent=permanent)
    refusals = receiver.sink.deliver("mail", jobs("a", "b", "c"))
    assert {position: refusal.permanent for position, refusal in refusals.items()} == {1: permanent}
    assert sorted(receiver.received()) == [("a", 1), ("c", 1)]


def test_a_sink_can_be_closed_twice(receiver: Receiver) -> None:
    receiver.sink.close()
    receiver.sink.close()
