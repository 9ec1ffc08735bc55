"""Everything that can be asked over HTTP, in the order in which it is described."""

from __future__ import annotations

from oncue.api import (
    agenda,
    batch,
    bulk,
    jobs,
    manual,
    queues,
    rules,
    schedules,
    tasks,
    upkeep,
    work,
)

OPERATIONS = [
    *jobs.OPERATIONS,
    *batch.OPERATIONS,
    *bulk.OPERATIONS,
    *work.OPERATIONS,
    *queues.OPERATIONS,
    *rules.OPERATIONS,
    *schedules.OPERATIONS,
    *tasks.OPERATIONS,
    *agenda.OPERATIONS,
    *upkeep.OPERATIONS,
    *manual.OPERATIONS,
]
