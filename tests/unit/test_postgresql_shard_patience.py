"""How long a dispatcher waits for a shard that transactions of others share."""

from __future__ import annotations

from oncue.clock import FakeClock
from oncue.stores.postgresql.locks import NO_PATIENCE_MS
from oncue.stores.postgresql.range_asked import (
    LONGEST_PATIENCE_MS,
    SHARD_PATIENCE_MS,
    SHARE,
    WAITED_FOR,
    RangeAsked,
    ShardPatience,
)

ASKED = RangeAsked("q", "d", 1, 0, 0, 1000)


def test_each_wait_in_vain_is_followed_by_a_longer_one_after_a_rest() -> None:
    clock = FakeClock()
    patience = ShardPatience(clock)
    waits = []
    for _ in range(6):
        waits.append(patience.of(ASKED, 0))
        patience.waited("q", 0, waits[-1])
        assert patience.of(ASKED, 0) == NO_PATIENCE_MS
        clock.advance(SHARE * waits[-1] / 1000)
    assert waits == [20, 40, 80, 160, 320, 320]
    assert patience.of(ASKED, 1) == SHARD_PATIENCE_MS
    assert patience.of(ASKED._replace(queue="other"), 0) == SHARD_PATIENCE_MS


def test_a_shard_that_was_had_is_waited_for_as_at_first() -> None:
    patience = ShardPatience(FakeClock())
    patience.waited("q", 0, LONGEST_PATIENCE_MS)
    patience.had("q", 0)
    assert patience.of(ASKED, 0) == SHARD_PATIENCE_MS


def test_a_try_in_vain_puts_off_no_wait() -> None:
    patience = ShardPatience(FakeClock())
    patience.waited("q", 0, NO_PATIENCE_MS)
    assert patience.of(ASKED, 0) == SHARD_PATIENCE_MS


def test_where_many_shards_are_shared_the_others_are_only_tried() -> None:
    shared = ASKED._replace(shared=frozenset(range(WAITED_FOR)))
    assert ShardPatience(FakeClock()).of(shared, 9) == NO_PATIENCE_MS
