"""The store, as far as queues go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol

from oncue.core.moment import Moment
from oncue.core.queue import Queue, QueueStats
from oncue.core.retention import Pruned, Retention


class QueueDeletion(NamedTuple):
    """What came of one part of a deletion."""

    outcome: Literal["deleted", "more", "kept", "unknown"]
    """`more`: some of its finished jobs are gone, go on; `kept`: it is in use, see `why`."""
    why: str = ""


class QueueStore(Protocol):
    def queues(self) -> list[Queue]:
        """Every queue that was set or has held a job, by name, until it is deleted. One that was
        never set is as `default_queue` says."""

    def put_queue(self, seen: Queue | None, queue: Queue) -> bool:
        """Replace a queue, settings and pause. `seen` is the queue as `queues` listed it, None if
        it was not listed. False: it has changed since, and nothing was stored.

        New limits hold from the next claim on; jobs that were taken under the old ones are left
        alone, and counted. While a queue is paused, none of its jobs is claimed or delivered; other
        processes may take jobs for one more second. A queue whose settings are left at the defaults
        follows the defaults."""

    def delete_queue(self, name: str, now: Moment, limit: int) -> QueueDeletion:
        """Remove up to `limit` finished jobs of a queue, as `prune` does, and, if none is left, the
        queue: its settings, its pause and its rate. In one transaction with the look whether it is
        in use (`core/queue.py: why_kept`), so a job that arrives is never lost. The fences of its
        range claims go on, and ids chosen by clients stay remembered."""

    def stats(self, name: str) -> QueueStats:
        """What is in a queue, as far as the store can tell (`counts`)."""

    def due_counts(
        self, name: str, start: Moment, until: Moment, step_ms: int
    ) -> Mapping[Moment, int]:
        """How many scheduled jobs of the queue are due in each step of [start, until), by the
        step's beginning; empty steps are left out. Refused by a store that lacks `counts`."""

    def prune(self, kept: Retention, now: Moment, limit: int) -> Pruned:
        """Remove, up to `limit` of each kind: of every queue, jobs that finished before the moment
        in `kept`, the oldest first, with all that belongs to them; ids that were only remembered,
        a day after they finished, also of a queue that was deleted; accepted events that can never
        matter again, decisions from before the time that a rule keeps and events that no rule
        decided on (see `Bounds`).

        An id that was chosen by a client disappears from sight with its job and stays remembered
        until a day after it finished. Where nothing is old enough, this only reads, in one look for
        all queues. A store that removes jobs by itself (by a ttl) uses the retention in force when
        the job finished, and does not count them (`prune-counts`)."""
