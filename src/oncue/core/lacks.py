"""What a store may be unable to do, and how it says so.

A store names what it lacks in `Traits.lacks`. What depends on it answers without it where that
is possible; where it is not, the store raises `NotSupported` by one of these functions.
"""

from __future__ import annotations

from typing import Literal

from oncue.core.errors import NotSupported
from oncue.core.job import JobFilter
from oncue.core.publication import EventFilter

Lack = Literal["counts", "all-jobs", "all-events", "prune-counts"]
"""`counts`: how many jobs a queue has, by state or by due time. `QueueStats.counts` is empty then,
and `due_counts` is refused. `all-jobs`: lists and bulk verbs that name no queue, owner or key.
`all-events`: lists of events that name no rule. `prune-counts`: how many jobs were pruned;
`Pruned.jobs` is None then."""


def uncounted() -> NotSupported:
    """Why a call that counts is refused."""
    return NotSupported(
        "This store cannot count its jobs (it lacks 'counts'). 'oncue dump' writes all jobs to a "
        "file, where they can be counted.",
        "counts",
    )


def refuse_all_jobs(wanted: JobFilter) -> None:
    """Refuse a filter that means the jobs of all queues."""
    if wanted.queue is None and wanted.owner is None and wanted.key is None:
        raise NotSupported(
            "This store cannot list the jobs of all queues together (it lacks 'all-jobs'). Name a "
            "queue, an owner or a key; or use 'oncue dump', which writes all jobs to a file.",
            "all-jobs",
        )


def refuse_all_events(wanted: EventFilter) -> None:
    """Refuse a filter that means the events of all rules."""
    if wanted.rule is None:
        raise NotSupported(
            "This store cannot list the events of all rules together (it lacks 'all-events'). Name "
            "a rule; or use 'oncue dump', which writes all events to a file.",
            "all-events",
        )
