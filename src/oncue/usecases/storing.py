"""Storing jobs, as steps (`core/steps.py`)."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from oncue.core import errors
from oncue.core.job import Job, NewJob
from oncue.ports.jobs import Clash
from oncue.usecases import intake
from oncue.usecases.local import Local

IDS_KEPT = 10_000
HELD_SECONDS = 4.0  # for which a job waits for a transaction of others; HTTP callers wait for 5
HELD_REST_SECONDS = 0.05  # between two attempts, each of which waits a little, too
_QUEUE = itemgetter(NewJob._fields.index("queue"))  # by position: it is asked for every job

Met = Mapping[int, Job | errors.OncueError]
"""By position, of jobs that were not stored: the job that was there, or why it is refused."""


class Stored(NamedTuple):
    job: Job
    existed: bool
    """It was there before, under the id or the key that was asked for."""


class StoredJobs(NamedTuple):
    """The outcome of storing a list of jobs."""

    ids: list[str | None]
    """Of each job that is stored now, in order; None: it was refused."""
    existing: int
    """How many were there before."""
    refused: Mapping[int, errors.OncueError]
    """Why, by position."""


@dataclass(slots=True)
class Tally:
    """The outcome of storing many jobs."""

    accepted: int = 0
    """Stored now or there already."""
    existing: int = 0
    ids: list[str] = field(default_factory=list)
    """In order, as long as there are no more than 10,000."""

    def add(self, stored: StoredJobs) -> None:
        self.accepted += len(stored.ids) - len(stored.refused)
        self.existing += stored.existing
        if self.accepted <= IDS_KEPT:
            self.ids += [job_id for job_id in stored.ids if job_id is not None]
        else:
            self.ids.clear()


def inserting(
    cue: Local, jobs: Sequence[NewJob]
) -> Generator[Sequence[NewJob], Mapping[int, Clash | errors.HeldByOthers], Met]:
    """Asks for jobs to be inserted, and counts the new ones. As `Met`."""
    refused = unsendable(cue, jobs)
    if not refused:
        clashes = yield jobs
        cue.telemetry.count("jobs_created", len(jobs) - len(clashes))
        return {position: _met(clash) for position, clash in clashes.items()} if clashes else {}
    places = [place for place in range(len(jobs)) if place not in refused]
    if not places:
        return refused
    met = yield from inserting(cue, [jobs[place] for place in places])
    return {**refused, **{places[at]: answer for at, answer in met.items()}}


def stored_one(new: NewJob, met: Met) -> Stored:
    """The outcome for the only job."""
    found = met.get(0)
    if isinstance(found, errors.OncueError):
        raise found
    return Stored(intake.as_stored(new), False) if found is None else Stored(found, True)


def stored_all(jobs: Sequence[NewJob], met: Met) -> StoredJobs:
    refused = {at: one for at, one in met.items() if isinstance(one, errors.OncueError)}
    ids: list[str | None] = [job.id for job in jobs]
    for position, answer in met.items():
        ids[position] = None if isinstance(answer, errors.OncueError) else answer.id
    return StoredJobs(ids, len(met) - len(refused), refused)


def unsendable(cue: Local, jobs: Sequence[NewJob]) -> dict[int, errors.OncueError]:
    """By position: the jobs that the sinks of their queues would never take."""
    bounds = {}
    for name in set(map(_QUEUE, jobs)):
        if (found := cue._sink_bounds(name)) is not None:
            bounds[name] = found
    if not bounds:
        return {}
    asked = ((at, bounds.get(job.queue), job.payload) for at, job in enumerate(jobs))
    problems = ((at, one.problem(payload)) for at, one, payload in asked if one is not None)
    return {at: problem for at, problem in problems if problem is not None}


def held_in(met: Met) -> list[int]:
    """The positions of jobs that are to be asked for again."""
    return [at for at, answer in met.items() if isinstance(answer, errors.HeldByOthers)]


def _met(clash: Clash | errors.HeldByOthers) -> Job | errors.OncueError:
    """The job that has the id or the key of a new job, or the refusal of the new one."""
    if isinstance(clash, errors.HeldByOthers):
        return clash
    job = clash.job
    if clash.kind == "id taken":
        return errors.IdTaken(
            f"a job with the id {job.id!r} exists and was created with other fields. "
            "Choose another id, or send the same fields to get that job."
        )
    if clash.kind == "key taken":
        return errors.KeyTaken(
            f"the key {job.key!r} belongs to job {job.id}, which is {job.state} "
            "and can no longer be replaced. Wait until it ends, or use another key."
        )
    return job
