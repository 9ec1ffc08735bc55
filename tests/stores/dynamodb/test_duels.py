"""Whatever two nodes do to one job at the same time, one of them does it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stores.dynamodb.duels import DUELS, KINDS, Kind
from tests.stores.dynamodb.rig import Rig

# Every duel with one kind of job; `make chaos` has all of them, and meetings at two points each.
# What is delivered and not kept is a case of its own: nothing at all is left of it.
CASES = [
    (duel, Kind(True, False) if duel.startswith("deliver") else KINDS[place % len(KINDS)])
    for place, duel in enumerate(DUELS)
]


@pytest.mark.parametrize(("duel", "kind"), CASES, ids=lambda one: str(one))
def test_one_of_two_has_the_job_wherever_they_meet(client: Any, duel: str, kind: Kind) -> None:
    rig = Rig(client)
    fights = DUELS[duel].fight(rig, kind)
    rig.close()
    assert fights > 5
