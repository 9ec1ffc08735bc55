"""By how much leases are moved after a gap or a turned clock."""

from __future__ import annotations

import pytest

from oncue.core.missed import (
    JUMP_MS,
    LONGEST_GAP_MS,
    RECORD_EVERY_MS,
    Look,
    Missed,
    missed_since,
    moved_lease,
    moved_stamp,
    moved_timeout,
)

NOW = 1_800_000_000_000
HOUR = 3_600_000
MINUTE = 60_000


def look(elapsed_ms: int, jumped_ms: int = 0, origin: str = "boot") -> Look:
    """A look so long after the first one, with the wall clock turned by so much in between."""
    return Look(origin, 5_000 + elapsed_ms, NOW + elapsed_ms + jumped_ms)


FIRST = look(0)


@pytest.mark.parametrize("jumped_ms", [-JUMP_MS, 0, JUMP_MS])
def test_between_two_looks_of_a_running_reclaimer_nothing_is_missed(jumped_ms: int) -> None:
    assert missed_since(FIRST, None, look(2_000, jumped_ms)) is None
    assert missed_since(FIRST, FIRST, look(30_000, jumped_ms)) is None


def test_a_clock_set_forward_moves_claims_and_ranges_by_the_jump() -> None:
    assert missed_since(FIRST, None, look(2_000, HOUR)) == Missed(HOUR, HOUR)


def test_a_clock_set_back_moves_nothing_forward_but_has_leases_judged_again() -> None:
    assert missed_since(FIRST, None, look(2_000, -HOUR)) == Missed(0, 0)


def test_the_later_of_the_own_and_the_recorded_look_counts() -> None:
    recorded = look(1_000, HOUR)
    assert missed_since(FIRST, recorded, look(2_000, HOUR)) is None
    assert missed_since(recorded, FIRST, look(2_000, HOUR)) is None


def test_a_recorded_look_of_another_machine_run_does_not_replace_the_own_one() -> None:
    assert missed_since(FIRST, look(9_000, origin="other"), look(2_000)) is None


@pytest.mark.parametrize("own", [None, FIRST])
def test_a_look_from_before_the_recorded_one_tells_nothing(own: Look | None) -> None:
    assert missed_since(own, look(8_000), look(2_000)) is None
    assert missed_since(own, look(8_000, HOUR), look(2_000)) is None


def test_the_first_look_of_all_misses_nothing_but_has_leases_judged() -> None:
    assert missed_since(None, None, FIRST) == Missed(0, 0)


@pytest.mark.parametrize(
    ("elapsed_ms", "missed_ms"), [(LONGEST_GAP_MS, 0), (10 * MINUTE, 10 * MINUTE)]
)
def test_a_restarted_reclaimer_counts_the_time_in_which_no_engine_ran(
    elapsed_ms: int, missed_ms: int
) -> None:
    assert missed_since(None, FIRST, look(elapsed_ms)) == Missed(missed_ms, 0)


def test_a_jump_while_no_engine_ran_adds_to_the_outage() -> None:
    assert missed_since(None, FIRST, look(10 * MINUTE, HOUR)) == Missed(10 * MINUTE + HOUR, HOUR)
    assert missed_since(None, FIRST, look(10 * MINUTE, -HOUR)) == Missed(10 * MINUTE, 0)


def test_after_a_reboot_the_wall_clock_tells_how_long_no_engine_ran() -> None:
    after = Look("next boot", 20_000, NOW + 10 * MINUTE)
    assert missed_since(None, FIRST, after) == Missed(10 * MINUTE, 0)
    assert missed_since(None, FIRST, after._replace(wall=NOW - HOUR)) == Missed(0, 0)


def test_time_in_which_the_store_was_away_counts_however_short() -> None:
    assert missed_since(FIRST, FIRST, look(3_000), away=True) == Missed(3_000, 0)


def test_a_lease_is_moved_but_never_beyond_its_length_from_now() -> None:
    assert moved_lease(NOW + 10_000, MINUTE, 20_000, NOW) == NOW + 30_000
    assert moved_lease(NOW + 10_000, MINUTE, HOUR, NOW) == NOW + MINUTE
    assert moved_lease(NOW - HOUR, MINUTE, 20_000, NOW) == NOW - HOUR + 20_000


def test_a_lease_from_before_the_clock_was_set_back_ends_one_length_from_now() -> None:
    assert moved_lease(NOW + HOUR, MINUTE, 0, NOW) == NOW + MINUTE


@pytest.mark.parametrize("late_ms", [0, 1, JUMP_MS])
def test_a_lease_given_by_a_caller_that_was_overtaken_is_not_shortened(late_ms: int) -> None:
    until = NOW + MINUTE + late_ms
    assert moved_lease(until, MINUTE, 0, NOW) == until
    assert moved_lease(until, MINUTE, HOUR, NOW) == until


def test_a_timeout_is_moved_by_what_was_missed_since_the_claim() -> None:
    assert moved_timeout(NOW, NOW - HOUR, MINUTE, NOW) == NOW + MINUTE
    assert moved_timeout(NOW, NOW - 5_000, MINUTE, NOW) == NOW + 5_000


def test_the_timeout_of_a_claim_from_before_the_clock_was_set_back_counts_from_now() -> None:
    claimed_at = NOW + HOUR
    assert moved_timeout(claimed_at + MINUTE, claimed_at, 0, NOW) == NOW + MINUTE
    assert moved_stamp(claimed_at, NOW) == NOW
    assert moved_stamp(NOW - 1, NOW) == NOW - 1


def test_a_look_is_recorded_again_only_after_a_while() -> None:
    assert FIRST.needs_recording(None)
    assert not look(RECORD_EVERY_MS - 1).needs_recording(FIRST)
    assert look(RECORD_EVERY_MS).needs_recording(FIRST)
    assert look(0, origin="other").needs_recording(FIRST)
