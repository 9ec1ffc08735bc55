"""Everything that can be asked over HTTP, in the order in which it is described."""

from __future__ import annotations

from oncue.api import batch, jobs, manual, queues, rules, tasks, upkeep, work

OPERATIONS = [
    *jobs.OPERATIONS,
    *batch.OPERATIONS,
    *work.OPERATIONS,
    *queues.OPERATIONS,
    *rules.OPERATIONS,
    *tasks.OPERATIONS,
    *upkeep.OPERATIONS,
    *manual.OPERATIONS,
]
