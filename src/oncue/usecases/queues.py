"""Queues: their settings, their counts, and their end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from oncue.core.errors import Conflict, InvalidInput, NotFound
from oncue.core.moment import Moment
from oncue.core.queue import Queue, QueueStats, check_queue_name, default_queue
from oncue.core.text import quoted
from oncue.engine.alarm import Alarm
from oncue.ports.clock import Clock
from oncue.ports.queues import QueueStore
from oncue.ports.store import Store
from oncue.usecases import intake
from oncue.usecases.local import Local

CHUNK = 1000  # finished jobs removed in one transaction: a few milliseconds


class LocalQueues(Local):
    """The methods of a scheduler about queues."""

    def queue(self, name: str) -> Queue:
        """The settings of a queue; one never set has the defaults."""
        return queue_of(self.store, name)

    def queues(self) -> list[Queue]:
        return self.store.queues()

    def queues_with_stats(self) -> list[tuple[Queue, QueueStats]]:
        """As `queues`, each with what `stats` tells."""
        return [(queue, self.stats(queue.name)) for queue in self.queues()]

    def set_queue(self, name: str, **settings: Any) -> Queue:
        """Replace all settings of a queue: `sink`, `completion`, `max_attempts`, `retry`,
        `lease_seconds`, `timeout_seconds`, `rate_per_second`, `concurrency`, `retention_seconds`,
        `poison_after`, `shards`. Settings that are not given get their default."""
        queue = intake.queue(name, settings)
        check_sink(queue, self.store, self.clock)
        put_queue(self.store, queue)
        self.policies.forget()
        return queue

    def pause(self, name: str) -> None:
        """Take and deliver nothing of this queue until it is resumed; due work waits."""
        set_paused(self.store, check_queue_name(name), True)

    def resume(self, name: str) -> None:
        """Refused if its sink needs a stream that the store does not have, as after a restore."""
        check_stream(queue_of(self.store, check_queue_name(name)), self.store)
        set_paused(self.store, name, False)

    def stats(self, name: str) -> QueueStats:
        """How many jobs of the queue are in each state, the oldest due one, and how late first
        attempts began here."""
        found = self.store.stats(check_queue_name(name))
        return found._replace(lateness=self.telemetry.lateness(name))

    def due_counts(
        self, name: str, since: Moment, until: Moment, step_ms: int
    ) -> Mapping[Moment, int]:
        """How many scheduled jobs are due in each step of [since, until), by its beginning."""
        return self.store.due_counts(check_queue_name(name), since, until, step_ms)

    def delete_queue(self, name: str) -> None:
        """Delete a queue with its settings and its finished jobs. Refused with `Conflict` while it
        has unfinished jobs, a schedule or a rule makes jobs for it, or it is built in. The name may
        be used again, with default settings.

        Many finished jobs are removed in parts, with a rest after each that is as long as its write
        took. A job that arrives meanwhile ends the deletion with `Conflict`: the queue and the job
        stay."""
        check_queue_name(name)
        alarm = Alarm(self.clock)
        while True:
            began = self.clock.monotonic()
            outcome, why = self.store.delete_queue(name, self.clock.now(), CHUNK)
            if outcome == "kept":
                raise Conflict(why)
            if outcome == "unknown":
                raise unknown(name)
            if outcome == "deleted":
                break
            alarm.pause(self.clock.monotonic() - began)
        self.policies.forget()
        self.telemetry.forget(name)


def check_sink(queue: Queue, store: Store, clock: Clock) -> None:
    """Refuse a sink that cannot be opened, or in which jobs would be lost."""
    if queue.sink is not None:
        from oncue.sinks import open_sink

        open_sink(queue.sink, clock).close()
    check_stream(queue, store)


def check_stream(queue: Queue, store: Store) -> None:
    """Refuse a stream sink where nobody reads a stream: jobs would only be marked as started."""
    if queue.sink is None:
        return
    from oncue.sinks.stream import PREFIX

    if not queue.sink.startswith(PREFIX):
        return
    if queue.completes_on != "worker":
        raise InvalidInput("a stream sink needs completion='worker'.", "/completion")
    if store.describe().details.get("stream") != "NEW_AND_OLD_IMAGES":
        raise InvalidInput(
            "a stream sink needs a DynamoDB table with a stream of NEW_AND_OLD_IMAGES; "
            "'oncue aws template --stream' has one.",
            "/sink",
        )


def unknown(name: str) -> NotFound:
    return NotFound(f"there is no queue {quoted(name)}: it was never set and has no jobs.")


def queue_of(store: QueueStore, name: str) -> Queue:
    return _listed(store, name) or default_queue(name)


def put_queue(store: QueueStore, queue: Queue) -> None:
    """Give a queue these settings. `paused` is not one of them and stays as it is."""
    change_queue(store, queue.name, lambda seen: replace(queue, paused=seen.paused))


def set_paused(store: QueueStore, name: str, paused: bool) -> None:
    """Pause or resume a queue. Its settings stay as they are."""
    change_queue(store, name, lambda seen: replace(seen, paused=paused))


def change_queue(store: QueueStore, name: str, choose: Callable[[Queue], Queue]) -> None:
    """Replace a queue by what `choose` makes of it, again if others change it meanwhile."""
    seen = _listed(store, name)
    while not store.put_queue(seen, choose(seen or default_queue(name))):
        seen = _listed(store, name)


def _listed(store: QueueStore, name: str) -> Queue | None:
    return next((queue for queue in store.queues() if queue.name == name), None)
