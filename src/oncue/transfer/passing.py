"""Keys that passed from one job to another while a dump was written.

A dump is not of one moment: it may have a job as it was before it ended, and behind it the job that
got its key then. So of two unfinished jobs of a dump with the same key, the first is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from oncue.core.changes import ChangeVerb, JobChange
from oncue.core.cursor import every_item
from oncue.core.job import Diagnostic, Job, JobFilter
from oncue.core.lifecycle import FINAL, Verb
from oncue.core.moment import to_datetime
from oncue.core.retry import Verdict
from oncue.ports.claims import ClaimFilter
from oncue.ports.store import Store

CODE = "superseded"


class PassedKeys:
    """The keys of unfinished jobs of a dump, each with its last holder. There may be millions, so
    only hashes are kept."""

    def __init__(self) -> None:
        self._holders: dict[int, int] = {}

    def take(self, job: Job) -> int | None:
        """Give a job its key. The hash of the id of the job of the dump that had it before, if
        there is one."""
        if job.key is None or job.state in FINAL:
            return None
        place, holder = hash((job.queue, job.key)), hash(job.id)
        former = self._holders.get(place, holder)
        self._holders[place] = holder
        return None if former == holder else former


def holders(store: Store, job: Job) -> Iterator[Job]:
    """The unfinished jobs of the store that have the key of this one."""
    found = every_item(partial(store.page, JobFilter(queue=job.queue, key=job.key)))
    return (one for one in found if one.state not in FINAL)


def supersede(store: Store, job: Job, former: int) -> None:
    """End the job that had the key of this one before, if the store has it so."""
    now = store.clock.now()
    detail = f"Its key passed to job {job.id} while the dump was written: it was over by then."
    for held in [one for one in holders(store, job) if hash(one.id) == former]:
        claims = store.live_claims(ClaimFilter(job_id=held.id), None, 1).items
        verdict = Verdict(Verb.DROP, CODE, detail)
        if claims:
            store.reclaim([(claim, verdict) for claim in claims], now)
        else:
            store.change([held.id], JobChange(ChangeVerb.CANCEL), now)
            diagnostic = Diagnostic(to_datetime(now), CODE, detail, held.attempt, held.epoch)
            store.note(held.id, [diagnostic])
