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

_MODULES = (
    *(jobs, batch, bulk, claims, claim_batches, queues),
    *(rules, schedules, tasks, agenda, server, docs),
)
ROUTES: list[Route] = [route for module in _MODULES for route in module.routes]
