"""Everything that can be asked over HTTP, in the order in which it is described."""

from __future__ import annotations

from oncue.api import (
    agenda,
    batch,
    bulk,
    jobs,
    manual,
    queues,
    reports,
    rules,
    schedules,
    tasks,
    upkeep,
    work,
)
from oncue.api.routing import Route

ROUTES: list[Route] = [
    *jobs.routes,
    *batch.routes,
    *bulk.routes,
    *work.routes,
    *reports.routes,
    *queues.routes,
    *rules.routes,
    *schedules.routes,
    *tasks.routes,
    *agenda.routes,
    *upkeep.routes,
    *manual.routes,
]
