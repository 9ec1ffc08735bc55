"""Single jobs in DynamoDB: creation, reading, and what people change."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from oncue.core.changes import ChangeVerb, JobChange, NotChanged, decide
from oncue.core.clash import of_same_id, of_same_key
from oncue.core.cursor import MOST_ITEMS, Cursor
from oncue.core.errors import StoreUnavailable
from oncue.core.job import Diagnostic, History, Job, NewJob
from oncue.core.lifecycle import FINAL
from oncue.core.moment import Moment
from oncue.core.operations import part_of
from oncue.core.record import Record
from oncue.ports.jobs import Changed, Clash
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.filed import Filed, is_plain, stands_apart, waiting_item
from oncue.stores.dynamodb.filing import Saving, Wanted, everything, hold_key, what_was
from oncue.stores.dynamodb.known import KnownQueue
from oncue.stores.dynamodb.leasing import Leasing
from oncue.stores.dynamodb.writes import Check, Item, Put, Write

P = TypeVar("P")
T = TypeVar("T")

MOST_RACES = 100
"""How often a call tries again because another one was quicker."""


class DynamoJobs(Leasing):
    """Implements `oncue.ports.jobs.JobStore`, but for lists."""

    def insert(self, jobs: Sequence[NewJob], now: Moment) -> Mapping[int, Clash]:
        self._register(self._receiving(jobs, now), now)
        known = self._known({job.queue for job in jobs})
        simple: list[NewJob] = []
        others: dict[int, NewJob] = {}
        for at, new in enumerate(jobs):
            if new.key is None and is_plain(new):
                simple.append(new)
            else:
                others[at] = new
        self._store_plain(simple, known, now)
        clashes: dict[int, Clash] = {}
        for part in rounds(others, names_of):
            clashes |= self._insert(part, known, now)
        for new in simple:
            self._news.add(new.queue, new.due_at)
        self._news.tell()
        return dict(sorted(clashes.items()))

    def _receiving(self, jobs: Sequence[NewJob], now: Moment) -> set[str]:
        """The queues that get a job. A queue is not created for a job that is there already."""
        known = self._known({job.queue for job in jobs})
        missing = {name for name, queue in known.items() if not queue.exists}
        there = self.read(new.id for new in jobs if new.queue in missing) if missing else {}
        known_ids = {job_id for job_id, job in there.items() if not job.is_gone(now)}
        return {new.queue for new in jobs if new.id not in known_ids}

    def _store_plain(
        self, jobs: Sequence[NewJob], known: Mapping[str, KnownQueue], now: Moment
    ) -> None:
        """Each is one item. What stands apart comes first: so it is there when it is wanted."""
        apart: list[Item] = []
        items: list[Item] = []
        for new in jobs:
            item, parts = waiting_item(Record.of(new, now), known[new.queue])
            items.append(item)
            apart += parts
        self.table.write(apart)
        self.table.write(items)

    def _insert(
        self, jobs: Mapping[int, NewJob], known: Mapping[str, KnownQueue], now: Moment
    ) -> dict[int, Clash]:
        """Jobs with names that others may have: the clashes. Each name is here once."""
        clashes: dict[int, Clash] = {}
        left = dict(jobs)
        old: dict[int, Filed] = {}
        dead: dict[int, str] = {}
        # What stands apart is written before the record, and would stay if that is refused.
        large = {at: new for at, new in jobs.items() if stands_apart(Record.of(new, now))}
        if large:
            clashes = self._clashes(large, old, dead, now)
            left = {at: new for at, new in left.items() if at not in clashes}
        for _ in range(MOST_RACES):
            done = self._try_insert(left, known, old, dead, now)
            left = {at: new for at, new in left.items() if at not in done}
            if not left:
                return clashes
            found = self._clashes(left, old, dead, now)
            clashes |= found
            left = {at: new for at, new in left.items() if at not in found}
        raise too_many_races()

    def _try_insert(
        self,
        jobs: Mapping[int, NewJob],
        known: Mapping[str, KnownQueue],
        old: Mapping[int, Filed],
        dead: Mapping[int, str],
        now: Moment,
    ) -> set[int]:
        """Those that were stored. `old` have a record whose time is over; the key of `dead` is held
        by a job that is over."""
        groups: dict[int, list[Write]] = {}
        apart: list[Item] = []
        for at, new in jobs.items():
            record, queue = Record.of(new, now), known[new.queue]
            if is_plain(new):
                item, parts = waiting_item(record, queue)
                groups[at] = [Put(item), hold_key(record, dead.get(at))]
            else:
                ver = old[at].ver if at in old else 0
                groups[at], parts = self._creation(record, queue, now, ver, dead.get(at))
            apart += parts
        self.table.write(apart)
        done = self.table.apply(list(groups.values()))
        stored = {at for at, was in zip(groups, done, strict=True) if was}
        for at in stored:
            self._news.add(jobs[at].queue, jobs[at].due_at)
        return stored

    def _creation(
        self,
        record: Record,
        known: KnownQueue,
        now: Moment,
        ver: int = 0,
        takes_key_from: str | None = None,
    ) -> tuple[list[Write], list[Item]]:
        """What creates a job with its record, all at once; and what has to be there before. `ver`
        is that of a record in its place whose time is over."""
        saving = Saving(Filed(record, ver), takes_key_from=takes_key_from)
        plan = self._plan(saving, known, now)
        return plan.together, plan.before

    def _clashes(
        self,
        jobs: Mapping[int, NewJob],
        old: dict[int, Filed],
        dead: dict[int, str],
        now: Moment,
    ) -> dict[int, Clash]:
        """Of jobs that could not be stored: those whose id or key another job has."""
        same = self.read(new.id for new in jobs.values())
        self._cover(same.values())
        holders = self._holders((new.queue, new.key) for new in jobs.values() if new.key)
        clashes: dict[int, Clash] = {}
        for at, new in jobs.items():
            found = same.get(new.id)
            if found is not None and not found.is_gone(now):
                kind = of_same_id(new, found.record.digest)
                clashes[at] = Clash(kind, found.record.as_job())
                continue
            if found is not None:
                old[at] = found
            name, job = holders.get((new.queue, new.key or ""), (None, None))
            if job is not None:
                clash = self._clash_of_key(new, job, now)
                if clash is not None:
                    clashes[at] = clash
            elif name is not None:
                dead[at] = name
            else:
                dead.pop(at, None)
        return clashes

    def _clash_of_key(self, new: NewJob, holder: Filed, now: Moment) -> Clash | None:
        """None: the holder changed just now, look again."""
        kind = of_same_key(new, holder.record.shown_state)
        if kind == "replaced":
            checks = self._check_free(holder)
            change = JobChange(ChangeVerb.AMEND, due_at=new.due_at, payload=new.payload)
            holder.record.change(change, now)
            if self.save([Saving(holder, checks)], now) == [False]:
                return None
        return Clash(kind, holder.record.as_job())

    def _holders(
        self, names: Iterable[tuple[str, str]]
    ) -> dict[tuple[str, str], tuple[str, Filed | None]]:
        """Who holds these keys: the id, and the job if it is not over."""
        wanted = dict.fromkeys(names)
        found = self.table.read(keys.holder(*one) for one in wanted)
        held = {one: found[keys.holder(*one)]["id"] for one in wanted if keys.holder(*one) in found}
        jobs = self.read(held.values())
        self._cover(jobs.values())
        answer: dict[tuple[str, str], tuple[str, Filed | None]] = {}
        for one, job_id in held.items():
            job = jobs.get(job_id)
            is_over = job is None or job.record.state in FINAL or job.key_of != one[0]
            answer[one] = (job_id, None if is_over else job)
        return answer

    def get(self, job_id: str) -> Job | None:
        job = self._visible(job_id)
        if job is None:
            return None
        self._cover([job])
        return job.record.as_job()

    def history(self, job_id: str, after: Cursor | None = None, limit: int = MOST_ITEMS) -> History:
        job = self._visible(job_id)
        return part_of(History() if job is None else job.record.as_history(), after, limit)

    def _visible(self, job_id: str, wanted: Wanted = everything) -> Filed | None:
        job = self.read([job_id], wanted).get(job_id)
        return job if job is not None and job.is_visible(self.clock.now()) else None

    def note(self, job_id: str, diagnostics: Sequence[Diagnostic]) -> None:
        for _ in range(MOST_RACES):
            job = self._visible(job_id, what_was)
            if job is None:
                return
            checks: list[Check] = []
            name = job.record.queue
            if job.is_plain and not self._fresh([name])[name].queue.keeps_history:
                # Whoever delivers it just now removes it unread, and nothing is kept of it.
                self._cover([job])
                if job.record.covered:
                    return
                checks = self._check_free(job)
            for diagnostic in diagnostics:
                job.record.keep(diagnostic)
            if self.save([Saving(job, checks)], job.record.updated_at) == [True]:
                self._news.tell()
                return
        raise too_many_races()

    def change(self, job_ids: Sequence[str], change: JobChange, now: Moment) -> Changed:
        answers: dict[str, NotChanged | None] = {}
        left = list(job_ids)
        wanted = everything if change.verb is ChangeVerb.REVIVE else what_was
        for _ in range(MOST_RACES):
            found = self.read(left, wanted)
            self._cover(found.values())
            seen = [job for job in found.values() if job.is_visible(now)]
            seen.sort(key=lambda job: (job.record.due_at, job.id))
            answers |= dict.fromkeys(set(left) - {job.id for job in seen}, NotChanged("unknown"))
            left = []
            for part in rounds({job.id: job for job in seen}, _key_name):
                left += self._change(list(part.values()), change, now, answers)
            if not left:
                break
        else:
            raise too_many_races()
        self._news.tell()
        refused = {
            at: why for at, job_id in enumerate(job_ids) if (why := answers[job_id]) is not None
        }
        return Changed(refused, self.get(job_ids[0]) if job_ids else None)

    def _change(
        self,
        jobs: Sequence[Filed],
        change: JobChange,
        now: Moment,
        answers: dict[str, NotChanged | None],
    ) -> list[str]:
        """Change jobs; the ids of those that changed meanwhile and have to be looked at again."""
        needs_key = change.verb in (ChangeVerb.REVIVE, ChangeVerb.MOVE)
        keyed = {
            job.id: (change.queue or job.record.queue, job.record.key)
            for job in jobs
            if needs_key and job.record.key is not None
        }
        holders = self._holders(keyed.values())
        dead: dict[str, str | None] = {}  # of each job that is changed: who had its key before
        for job in jobs:
            held = holders.get(keyed.get(job.id, ("", "")))
            taken = held is not None and held[1] is not None and held[1].id != job.id
            why = decide(job.record.as_seen(key_taken=taken), change, now)
            answers[job.id] = why
            if why is None:
                dead[job.id] = held[0] if held is not None and held[1] is None else None
        if change.queue is not None and dead:
            self._register([change.queue], now)
        changed = (job for job in jobs if job.id in dead)
        savings = [self._changed(job, change, now, dead[job.id]) for job in changed]
        done = self.save(savings, now)
        return [one.job.id for one, was in zip(savings, done, strict=True) if not was]

    def _changed(self, job: Filed, change: JobChange, now: Moment, dead: str | None) -> Saving:
        checks, alone = self._check_free(job), not self._may_be_covered(job)
        job.record.change(change, now)
        return Saving(job, checks, takes_key_from=dead, is_unrivalled=alone)


def names_of(job: NewJob | Job) -> list[Hashable]:
    """What no other job may have at the same time."""
    return [job.id] if job.key is None else [job.id, (job.queue, job.key)]


def _key_name(job: Filed) -> list[Hashable]:
    key = job.record.key
    return [job.id] if key is None else [job.id, key]


def rounds(every: Mapping[P, T], names: Callable[[T], Sequence[Hashable]]) -> Iterator[dict[P, T]]:
    """Parts in which no name occurs twice, to be dealt with one after the other."""
    left = dict(every)
    while left:
        taken: set[Hashable] = set()
        part: dict[P, T] = {}
        for at, one in left.items():
            found = names(one)
            if taken.isdisjoint(found):
                part[at] = one
            taken.update(found)
        yield part
        left = {at: one for at, one in left.items() if at not in part}


def too_many_races() -> StoreUnavailable:
    return StoreUnavailable("too many others changed the same items at the same time; try again.")
