"""Everything that can be asked over HTTP, in the order in which it is described."""

from __future__ import annotations

from oncue.api.routes import (
    agenda,
    batch,
    bulk,
    claim_batches,
    claims,
    docs,
    jobs,
    queues,
    rules,
    schedules,
    server,
    tasks,
)
from oncue.api.routing import Route

ROUTES: list[Route] = [
    *jobs.routes,
    *batch.routes,
    *bulk.routes,
    *claims.routes,
    *claim_batches.routes,
    *queues.routes,
    *rules.routes,
    *schedules.routes,
    *tasks.routes,
    *agenda.routes,
    *server.routes,
    *docs.routes,
]
