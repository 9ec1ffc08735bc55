"""The client: what users on another machine hold. Every use case of `Scheduler` is one method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec

from oncue.client.address import address_of, bearer_of
from oncue.client.bulk import RemoteBulk
from oncue.client.claims import RemoteClaims
from oncue.client.connection import Call, Connection, path, query
from oncue.client.jobs import RemoteJobs
from oncue.client.rules import RemoteRules
from oncue.client.schedules import RemoteSchedules
from oncue.clock import SystemClock
from oncue.core import reclaim
from oncue.core.errors import InvalidInput
from oncue.core.moment import Moment, parse, render
from oncue.core.nodes import NodeReport
from oncue.core.queue import Queue, QueueStats, check_queue_name
from oncue.core.reclaim import ReclaimReport
from oncue.ports.clock import Clock
from oncue.usecases import intake
from oncue.wire import nodes as wire_nodes
from oncue.wire import queues as wire
from oncue.wire import reclaim as wire_reclaim
from oncue.wire.converting import written
from oncue.worker.handlers import Handler, Host

if TYPE_CHECKING:
    from oncue.client.claim_source import RemoteClaimSource
    from oncue.worker.source import ClaimSource


class Client(RemoteJobs, RemoteClaims, RemoteBulk, RemoteRules, RemoteSchedules, Host):
    """Schedules and does work at a server (`oncue serve`), with the methods of a `Scheduler`.

    `token` is an access token; without one, `ONCUE_TOKEN` is used if it is set. `timeout_seconds`
    bounds the wait for an answer, and for how long a call is repeated while the server is away.
    Safe to use from many threads; make one for each process.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8420",
        token: str | None = None,
        *,
        timeout_seconds: float = 30.0,
        clock: Clock | None = None,
    ) -> None:
        if not isinstance(timeout_seconds, int | float) or not 0 < timeout_seconds <= 86_400:
            raise InvalidInput("must be more than 0 and at most a day.", "/timeout_seconds")
        self.clock = clock or SystemClock()
        self.handlers: dict[str, Handler] = {}
        self._sources: list[RemoteClaimSource] = []
        self.connection = Connection(
            address_of(url), bearer_of(token), float(timeout_seconds), self.clock
        )

    def __repr__(self) -> str:
        return f"Client({self.connection.address.url!r})"

    # -- queues ----------------------------------------------------------------------------------

    def queue(self, name: str) -> Queue:
        """The settings of a queue; one never set has the defaults."""
        return self._ask(_about(name), wire.Queue, wire.Queue.settings)

    def queues(self) -> list[Queue]:
        """The settings of every queue that was set or has held a job, by name."""
        return [queue for queue, _ in self.queues_with_stats()]

    def queues_with_stats(self) -> list[tuple[Queue, QueueStats]]:
        """As `queues`, each with what `stats` tells, in as few requests as possible."""
        both = self._listed("/queues", wire.Queues, lambda one: (one.settings(), one.stats()))
        return list(both)

    def set_queue(self, name: str, **settings: Any) -> Queue:
        """Replace all settings of a queue, as `Scheduler.set_queue` does. What is not given is
        default."""
        queue = intake.queue(name, settings)
        fields = {k: v for k, v in asdict(queue).items() if k not in ("name", "paused")}
        request = Call("PUT", path("queues", name), msgspec.json.encode(fields))
        return self._ask(request, wire.Queue, wire.Queue.settings)

    def delete_queue(self, name: str) -> None:
        """Delete a queue with its settings and finished jobs, as `Scheduler.delete_queue` does."""
        self._delete("queues", check_queue_name(name))

    def pause(self, name: str) -> None:
        """Take and deliver nothing of this queue until it is resumed; due work waits."""
        self.connection.ask(Call("POST", path("queues", check_queue_name(name), "pause")))

    def resume(self, name: str) -> None:
        """Take and deliver again."""
        self.connection.ask(Call("POST", path("queues", check_queue_name(name), "resume")))

    def stats(self, name: str) -> QueueStats:
        """How many jobs of the queue are in each state, the oldest due one, and how late first
        attempts began at the server."""
        return self._ask(_about(name), wire.Queue, wire.Queue.stats)

    def due_counts(
        self, name: str, since: Moment, until: Moment, step_ms: int
    ) -> Mapping[Moment, int]:
        """How many scheduled jobs are due in each step of [since, until), by its beginning."""
        asked = {"from": render(since), "until": render(until), "step_seconds": step_ms / 1000}
        place = path("queues", check_queue_name(name), "due-counts") + query(asked)
        return self._ask(
            Call("GET", place),
            wire.DueCounts,
            lambda body: {parse(one.at): one.count for one in body.items},
        )

    def nodes(self) -> list[NodeReport]:
        """The processes on the store of the server, as `Scheduler.nodes` tells them."""
        return self._ask(
            Call("GET", "/nodes"), wire_nodes.Nodes, lambda body: [one.read() for one in body.items]
        )

    def reclaim(self, **parameters: Any) -> ReclaimReport:
        """Look once through the live claims for those silent longer than `reclaim_age_minutes`, and
        retry or fail them, as `Scheduler.reclaim` does; takes the scope `admin`. Never asked twice:
        if the answer is lost, another run does what is left."""
        wanted = reclaim.parameters(parameters)
        request = Call(
            "POST",
            "/reclaim",
            msgspec.json.encode(written(wire_reclaim.ReclaimParameters, wanted)),
            repeatable=False,
            wait_seconds=float(wanted.maximum_execution_seconds),
        )
        return self._ask(request, wire_reclaim.ReclaimReport, wire_reclaim.ReclaimReport.read)

    def _before_work(self) -> None:
        """The loops run at the server."""

    def claim_source(self, worker: str) -> ClaimSource:
        """Where a worker of this name claims jobs and reports on them: the server."""
        from oncue.client.claim_source import RemoteClaimSource

        source = RemoteClaimSource(self, worker)
        self._sources.append(source)
        return source

    def close(self) -> None:
        """Give the connections back."""
        for source in self._sources:
            source.close()
        self.connection.close()


def _about(queue: str) -> Call:
    return Call("GET", path("queues", check_queue_name(queue)))
