"""Single jobs changed: what the tests say often, said briefly."""

from __future__ import annotations

from typing import NamedTuple

from oncue.core.changes import ChangeVerb, JobChange
from oncue.core.job import Job
from oncue.core.moment import Moment
from oncue.ports.jobs import JobStore


class Amendment(NamedTuple):
    """New values for a scheduled job; None leaves the old one."""

    due_at: Moment | None = None
    priority: int | None = None
    payload: bytes | None = None


class Change(NamedTuple):
    """The job as it is then, None if there is none, and why it was not changed."""

    job: Job | None
    refused: str | None = None


CANCEL = JobChange(ChangeVerb.CANCEL)
STOP = JobChange(ChangeVerb.STOP)
REVIVE = JobChange(ChangeVerb.REVIVE)


def amend(amendment: Amendment) -> JobChange:
    return JobChange(ChangeVerb.AMEND, **amendment._asdict())


def change(store: JobStore, job_id: str, wanted: JobChange, now: Moment) -> Change:
    """A job that was as wanted already counts as changed."""
    changed = store.change([job_id], wanted, now)
    why = changed.refused.get(0)
    refused = None if why is None or why.reason in ("unknown", "as wanted") else why.reason
    return Change(changed.first, refused)
