"""Everything that can be asked over HTTP, in the order in which it is described."""

from __future__ import annotations

from oncue.api import batch, bulk, jobs, manual, queues, tasks, upkeep, work

OPERATIONS = [
    *jobs.OPERATIONS,
    *batch.OPERATIONS,
    *bulk.OPERATIONS,
    *work.OPERATIONS,
    *queues.OPERATIONS,
    *tasks.OPERATIONS,
    *upkeep.OPERATIONS,
    *manual.OPERATIONS,
]
