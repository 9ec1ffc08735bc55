"""The ledger: what it makes of claims, writes and ranges, one entry after the other."""

from __future__ import annotations

import pytest

from tests.proof.entries import (
    Entry,
    Looked,
    Ranged,
    RangeWrote,
    Received,
    Reclaimed,
    Struck,
    Taken,
    Wrote,
)
from tests.proof.ledger import RIVAL, Ledger

LEASE = 10.0


def taken(epoch: int = 1, since: float = 0.0, *, holder: str = "ada", together: int = 1) -> Taken:
    attempt = (epoch + 1) // 2
    return Taken("a", epoch, attempt, holder, since, LEASE, None, together)


def wrote(what: str, epoch: int = 1, since: float = 1.0, lease: float | None = None) -> list[Entry]:
    """A write, before it was made and once it was accepted."""
    write = Wrote("a", epoch, what, None, since, lease, "ada")
    return [write, write._replace(accepted=True)]


def refused(what: str, epoch: int = 1) -> list[Entry]:
    write = Wrote("a", epoch, what, None, 1.0)
    return [write, write._replace(accepted=False)]


def received(attempt: int = 1, receiver: str = "ada") -> Received:
    return Received("a", attempt, 0, receiver)


def reclaimed(epoch: int = 1, at: float = LEASE, holder: str = "") -> Reclaimed:
    return Reclaimed("a", epoch, holder, at)


def ranged(fence: int, since: float, holder: str = "first") -> Ranged:
    return Ranged("out#0", fence, ("a", "b"), holder, since, LEASE)


def settled(fence: int, *delivered: str, accepted: bool = True) -> list[Entry]:
    write = RangeWrote("out#0", fence, "settle", None, 0.0, delivered)
    return [write, write._replace(accepted=accepted)]


# Stale writes


@pytest.mark.parametrize("what", ["start", "hold", "hand over", "retry", "fail", "operation"])
def test_a_write_under_an_old_epoch_that_was_accepted_is_stale(what: str) -> None:
    ledger = Ledger([taken(1), reclaimed(1), taken(3, LEASE), *wrote(what, 1)])
    assert [(one.epoch, one.current, one.what) for one in ledger.stale] == [(1, 3, what)]


def test_a_write_under_an_old_epoch_that_was_refused_is_not() -> None:
    assert not Ledger([taken(1), reclaimed(1), taken(3, LEASE), *refused("start", 1)]).stale


def test_a_write_that_began_before_the_claim_was_lost_is_not_stale() -> None:
    before, after = wrote("start", 1)
    assert not Ledger([taken(1), before, reclaimed(1), taken(3, LEASE), after]).stale


def test_repeating_the_write_that_settled_a_claim_is_not_stale() -> None:
    again: list[Entry] = [*wrote("retry", 1), taken(2, 2.0), *wrote("retry", 1)]
    assert not Ledger([taken(1), *again]).stale


def test_a_completion_is_stale_whenever_another_claim_was_given() -> None:
    for entries in (
        [taken(1), *wrote("complete", 1), taken(3, LEASE)],
        [taken(1), reclaimed(1), *wrote("complete", 1)],
    ):
        assert [one.what for one in Ledger(entries).stale] == ["complete"]


def test_a_range_settled_under_an_old_fence_is_stale() -> None:
    entries = [ranged(1, 0.0), ranged(2, LEASE, "second")]
    assert not Ledger([*entries, *settled(1, "a", accepted=False)]).stale
    ledger = Ledger([*entries, *settled(1, "a")])
    assert [(one.epoch, one.current) for one in ledger.stale] == [(1, 2)]


def test_a_range_settled_before_somebody_else_took_the_next_is_not_stale() -> None:
    """Another process may write down that it has the next one before the answer is written down."""
    before, after = settled(1, "a", "b")
    ledger = Ledger([ranged(1, 0.0), before, ranged(2, 1.0, "second"), after])
    assert not any((ledger.stale, ledger.premature, ledger.repeated))
    assert ledger.jobs["a"].delivered


def test_a_range_that_was_not_settled_is_still_held() -> None:
    refused = settled(1, "a", accepted=False)
    assert Ledger([ranged(1, 0.0), *refused, ranged(2, 1.0, "second")]).premature


def test_a_claim_that_was_given_back_is_not_taken_away() -> None:
    """The same: the next claim may be written down before the answer to the release."""
    before, after = wrote("release")
    assert not Ledger([taken(1), before, taken(2, 1.0, holder="bob"), after]).premature
    assert Ledger([taken(1), taken(2, 1.0, holder="bob")]).premature


# Repeated deliveries


def test_a_second_delivery_needs_a_reason() -> None:
    assert Ledger([taken(1), received(), received()]).repeated == [received()]


@pytest.mark.parametrize(
    "reason", [[reclaimed(1)], wrote("retry"), wrote("release"), wrote("release")[:1]]
)
def test_a_claim_that_was_lost_or_given_back_is_a_reason(reason: list[Entry]) -> None:
    ledger = Ledger([taken(1), received(), *reason, taken(3, LEASE), received(2)])
    assert not ledger.repeated


def test_a_holder_who_does_not_know_yet_may_deliver_once_more() -> None:
    taken_over = taken(3, LEASE, holder="bob")
    entries: list[Entry] = [taken(1), reclaimed(1), taken_over, received(2, "bob")]
    assert not Ledger([*entries, received(1)]).repeated
    assert Ledger([*entries, received(1), received(1)]).repeated


def test_a_range_that_lapsed_or_was_not_settled_is_a_reason() -> None:
    second: list[Entry] = [ranged(2, LEASE, "second"), received(1, "second")]
    assert not Ledger([ranged(1, 0.0), received(), *second]).repeated
    assert not Ledger([ranged(1, 0.0), received(), *settled(1), *second]).repeated


def test_a_range_whose_settling_was_not_answered_may_be_delivered_again() -> None:
    said = settled(1, "a", "b")[:1]
    again: list[Entry] = [ranged(2, LEASE, "second"), received(1, "second")]
    assert not Ledger([ranged(1, 0.0), received(), *said, *again]).repeated


def test_what_was_settled_as_delivered_may_not_be_in_a_range_again() -> None:
    again = ranged(2, 1.0, "second")
    assert Ledger([ranged(1, 0.0), received(), *settled(1, "a"), again]).repeated


# Takeovers


def test_a_claim_that_is_taken_before_its_lease_ended_is_taken_prematurely() -> None:
    assert not Ledger([taken(1), reclaimed(1, at=LEASE)]).premature
    (takeover,) = Ledger([taken(1), reclaimed(1, at=LEASE - 1)]).premature
    assert (takeover.id, takeover.after) == ("a", -1.0)


def test_a_heartbeat_moves_the_end_of_the_lease() -> None:
    entries = [taken(1), *wrote("start", since=5.0, lease=LEASE)]
    assert Ledger([*entries, reclaimed(1, at=14.0)]).premature
    assert not Ledger([*entries, reclaimed(1, at=15.0)]).premature


def test_a_hand_over_ends_the_dispatchers_lease_and_not_the_workers() -> None:
    quick = [taken(1), *wrote("start"), *wrote("hand over")]
    assert Ledger([*quick, reclaimed(1, at=1e6)]).premature
    beaten = [taken(1), *wrote("start", since=2.0, lease=LEASE), *wrote("hand over")]
    assert not Ledger([*beaten, reclaimed(1, at=12.0)]).premature


def test_a_timeout_ends_a_claim_whatever_its_lease() -> None:
    claim = taken(1)._replace(timeout_seconds=4.0)
    assert not Ledger([claim, reclaimed(1, at=4.0)]).premature
    assert Ledger([claim, reclaimed(1, at=3.0)]).premature


def test_a_takeover_later_than_allowed_is_late() -> None:
    late: list[Entry] = [taken(1), reclaimed(1, at=LEASE + 2.1)]
    assert Ledger(late, takeover_seconds=2.0).late
    assert not Ledger(late, takeover_seconds=2.2).late
    assert not Ledger(late).late


def test_ranges_are_taken_over_neither_prematurely_nor_late() -> None:
    first: list[Entry] = [ranged(1, 0.0), RangeWrote("out#0", 1, "extend", True, 15.0)]
    assert Ledger([*first, ranged(2, 14.0, "second")]).premature
    in_time = Ledger([*first, ranged(2, 17.0, "second")], takeover_seconds=2.0)
    assert in_time.premature == in_time.late == []
    assert Ledger([*first, ranged(2, 17.1, "second")], takeover_seconds=2.0).late


def test_a_dispatcher_of_the_same_name_and_a_rival_take_over_when_they_like() -> None:
    assert not Ledger([ranged(1, 0.0), ranged(2, 1.0)]).premature
    assert not Ledger([ranged(1, 0.0), ranged(2, 1.0, RIVAL)]).premature
    assert not Ledger([taken(1), reclaimed(1, at=1.0, holder=RIVAL)]).premature


# Attempts and strikes


def test_an_attempt_that_nobody_had_is_overcounted() -> None:
    assert not Ledger([taken(1), received(1)]).overcounted
    assert Ledger([taken(1), received(2)]).overcounted
    assert Ledger([received(2)]).overcounted


def test_a_released_claim_gives_its_attempt_back() -> None:
    again = [taken(1), *wrote("release"), taken(2, 2.0)]
    assert not Ledger([*again, received(1)]).overcounted
    assert Ledger([*again, received(2)]).overcounted


def test_a_killed_process_may_have_claimed_without_having_said_so() -> None:
    assert not Ledger([Struck("ada", "kill"), taken(1), received(2)]).overcounted


def test_only_claims_that_had_started_are_strikes() -> None:
    fetched: list[Entry] = [taken(1), reclaimed(1)]
    begun = [taken(3, LEASE), *wrote("start", 3, LEASE), reclaimed(3, at=2 * LEASE)]
    assert Ledger([*fetched, *begun]).jobs["a"].strikes == 1


def test_a_lost_claim_that_never_started_counts_only_if_it_was_alone() -> None:
    assert Ledger([taken(1), reclaimed(1)]).jobs["a"].used == 1
    assert Ledger([taken(1, together=5), reclaimed(1)]).jobs["a"].used == 0
    begun = [taken(1, together=5), *wrote("start"), reclaimed(1)]
    assert Ledger(begun).jobs["a"].used == 1


# What was in flight


def test_what_the_killed_had_received_and_not_settled_was_in_flight() -> None:
    struck = Struck("ada", "kill")
    assert Ledger([taken(1), received(), struck]).in_flight == 1
    assert Ledger([taken(1), received(), *wrote("complete"), struck]).in_flight == 0
    assert Ledger([taken(1), received(), *wrote("complete")[:1], struck]).in_flight == 1
    given: list[Entry] = [taken(1), received(receiver="bob")]
    assert Ledger([*given, struck]).in_flight == 1
    assert Ledger([*given, *wrote("hand over"), struck]).in_flight == 0
    assert Ledger([ranged(1, 0.0, "ada"), received(), struck]).in_flight == 1
    assert Ledger([ranged(1, 0.0, "ada"), received(), *settled(1, "a"), struck]).in_flight == 0


def test_what_was_taken_from_a_holder_that_stood_still_was_in_flight_too() -> None:
    assert Ledger([taken(1), received(), Struck("ada", "stop")]).in_flight == 0
    assert Ledger([taken(1), received(), Struck("ada", "stop"), reclaimed(1)]).in_flight == 1
    assert Ledger([taken(1), received(), reclaimed(1), Struck("eve", "kill")]).in_flight == 1
    assert Ledger([taken(1), received(), reclaimed(1), Struck("ada", "kill")]).in_flight == 1
    lapsed = [ranged(1, 0.0), ranged(2, LEASE, "second")]
    assert Ledger([*lapsed, Struck("eve", "kill")]).in_flight == len(lapsed[0].ids)
    settling: list[Entry] = [lapsed[0], *settled(1, "a", "b")[:1], Struck("first", "stop")]
    assert Ledger([*settling, lapsed[1]]).in_flight == len(lapsed[0].ids)
    assert Ledger([lapsed[0], *settled(1, "a", "b"), lapsed[1]]).in_flight == 0


def test_a_reclaim_may_be_written_down_after_the_claim_that_it_made_possible() -> None:
    entries: list[Entry] = [taken(1), received(1), *wrote("complete", 1)[:1]]
    entries += [taken(3, LEASE), received(2, "bob")]
    ledger = Ledger([*entries, reclaimed(1)])
    assert (ledger.repeated, ledger.premature) == ([], [])
    assert Ledger(entries).repeated


def test_a_range_that_its_holder_knows_nothing_of_may_be_taken_at_once() -> None:
    lost, next_one = ranged(1, 0.0), ranged(3, 1.0, "second")
    forgotten = RangeWrote("out#0", 1, "forget", True, 0.0)
    assert Ledger([lost, next_one]).premature
    assert not Ledger([lost, forgotten, next_one]).premature
    other, later = ranged(3, LEASE, "second"), ranged(5, LEASE + 1)
    assert Ledger([lost, other, forgotten, later]).premature  # it is of an older fence


def test_a_range_that_is_written_down_after_its_takeover_takes_nothing_from_anybody() -> None:
    late = ranged(1, 1.0)
    ledger = Ledger([ranged(1, 0.0), ranged(2, LEASE + 1, "second"), received(), late])
    assert not ledger.premature
    assert not ledger.repeated


def test_nobody_may_deliver_what_he_wrote_down_after_its_takeover() -> None:
    second = [ranged(2, LEASE, "second"), received(1, "second"), *settled(2, "a", "b")]
    ledger = Ledger([*second, ranged(1, 0.0), received(1, "first")])
    assert [one.receiver for one in ledger.repeated] == ["first"]


def test_a_range_may_be_closed_by_another_than_the_one_who_takes_it() -> None:
    """Closing and taking are two requests where the store is on a network, and the taker's call may
    be older than that of the other."""
    looks: list[Entry] = [Looked("out", 9.9), Looked("out", LEASE), Looked("other", 2 * LEASE)]
    first, second = ranged(1, 0.0), ranged(3, 9.9, "second")
    ledger = Ledger([first, *looks, second])
    assert not any((ledger.premature, ledger.repeated))
    assert Ledger([first, looks[0], looks[2], second]).premature
