"""What a job takes of a DynamoDB table: the table of costs in docs/adr/0017-dynamodb.md."""

from __future__ import annotations

import pytest

from oncue.aws.units import Life


@pytest.mark.parametrize(
    ("life", "writes", "reads"),
    [
        (Life(400), 2, 1.5),
        (Life(400, keeps_history=True), 4, 1.5),
        (Life(400, idempotent=True), 6, 1.5),
        (Life(400, keeps_history=True, pulled=True), 7, 2.5),
        (Life(400, keeps_history=True, pulled=True, heartbeats=3), 10, 5.5),
    ],
)
def test_a_small_job_takes_what_the_decision_says(life: Life, writes: float, reads: float) -> None:
    assert (life.writes, life.reads) == (writes, reads)


@pytest.mark.parametrize(
    ("life", "writes"),
    [
        # Stored in a transaction (4), record, index, delete.
        (Life(400, keeps_history=True, idempotent=True), 7),
        # Put, record and index, delete, record, index.
        (Life(400, pulled=True), 6),
        # Record, item and key in a transaction (6), record, delete, delete of the key.
        (Life(400, keyed=True), 9),
        # An id of one's own and a key need one record.
        (Life(400, keyed=True, idempotent=True), 9),
    ],
)
def test_other_lives_are_sums_of_the_same_steps(life: Life, writes: float) -> None:
    assert life.writes == writes


@pytest.mark.parametrize(
    ("payload", "writes"),
    [
        (0, 2),
        (824, 2),  # 200 bytes of keys: 1,024 together
        (825, 4),  # two units to put, two to delete
        (1024, 4),
        (1025, 2 + 2 * 2),  # an item of 1,075 bytes, put and deleted
        (10_000, 2 + 2 * 10),
    ],
)
def test_writes_grow_with_the_payload(payload: int, writes: float) -> None:
    assert Life(payload).writes == writes


def test_a_record_grows_as_the_job_goes_on() -> None:
    """500 bytes: it has more than 1 KB when it has ended; 600: when it is claimed."""
    assert Life(500, keeps_history=True).writes == 5
    assert Life(500, idempotent=True).writes == 7
    assert Life(500, keeps_history=True, pulled=True, heartbeats=3).writes == 8 + 3
    assert Life(600, keeps_history=True, pulled=True, heartbeats=3).writes == 9 + 3 * 2


def test_a_large_payload_is_written_once_more_when_its_job_has_ended() -> None:
    assert Life(10_000, keeps_history=True).writes == 4 + 2 * 10
    assert Life(10_000, keeps_history=True, pulled=True, heartbeats=5).writes == 7 + 5 + 2 * 10
    assert Life(10_000, idempotent=True).writes == 6 + 2 * 10


def test_a_large_payload_is_read_when_the_job_is_taken() -> None:
    assert Life(4000).reads == 1.5 + 1
    assert Life(10_000).reads == 1.5 + 3


def test_a_job_without_a_record_leaves_nothing() -> None:
    assert (Life(500).stored_waiting, Life(500).stored_ended, Life(500).stored_index) == (800, 0, 0)


def test_what_is_stored_has_the_payload_once() -> None:
    kept = Life(500, keeps_history=True)
    assert (kept.stored_waiting, kept.stored_ended, kept.stored_index) == (800, 1150, 250)
    recorded = Life(500, idempotent=True)
    assert (recorded.stored_waiting, recorded.stored_ended) == (300 + 930, 1150)
    large = Life(5000, keeps_history=True)
    assert (large.stored_waiting, large.stored_ended) == (300 + 5150, 650 + 5150)
