"""All nouns that the stores on SQL have in common."""

from __future__ import annotations

from oncue.stores.relational.access import RelationalTokens
from oncue.stores.relational.events import RelationalEvents
from oncue.stores.relational.nodes import RelationalNodes
from oncue.stores.relational.part import X
from oncue.stores.relational.pruning import RelationalPruning
from oncue.stores.relational.rules import RelationalRules
from oncue.stores.relational.rules_transfer import RelationalRulesTransfer
from oncue.stores.relational.schedules import RelationalSchedules


class RelationalNouns(
    RelationalRules[X],
    RelationalEvents[X],
    RelationalRulesTransfer[X],
    RelationalPruning[X],
    RelationalSchedules[X],
    RelationalTokens[X],
    RelationalNodes[X],
):
    """To be completed by a store with what `part.py` asks for."""
