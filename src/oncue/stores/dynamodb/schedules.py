"""Schedules in DynamoDB.

One change of one schedule is one transaction, whose condition is the version of the schedule's
head; the changes of many share requests. The index says which schedules wake, and may be late: the
heads are the truth, and who looks again finds what was missing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from oncue.core.lifecycle import FINAL, Verb
from oncue.core.moment import Moment
from oncue.core.record import Record
from oncue.core.recurrence import Outcome, is_as_made
from oncue.core.schedule import Schedule
from oncue.ports.schedules import Advance
from oncue.stores.dynamodb import keys, scheduled
from oncue.stores.dynamodb.filed import MISSING, Filed, as_items
from oncue.stores.dynamodb.filing import SavePlan, Saving, what_was
from oncue.stores.dynamodb.jobs import MOST_RACES, DynamoJobs, rounds, too_many_races
from oncue.stores.dynamodb.keys import LAST, Key
from oncue.stores.dynamodb.known import KnownQueue
from oncue.stores.dynamodb.scheduled import CHANGED_ITEMS, DELETED_ITEMS, HeadChange, Scheduled
from oncue.stores.dynamodb.writes import (
    TRANSACT_AT_ONCE,
    Item,
    Put,
    Write,
    as_ttl,
    merged,
    unchanged,
)

log = logging.getLogger("oncue.store")

NAMES_AT_ONCE = 100
MADE_ITEMS, WITHDRAWN_ITEMS = 2, 2
"""A job that is made is a record and its place in line; one that is withdrawn is a record and a
check of the lease of its shard."""
FITS = min(
    (TRANSACT_AT_ONCE - CHANGED_ITEMS) // (MADE_ITEMS + WITHDRAWN_ITEMS),
    (TRANSACT_AT_ONCE - DELETED_ITEMS) // WITHDRAWN_ITEMS,
)
"""How many jobs one change can make, and how many it can withdraw besides."""
_LONG_GONE: Moment = 1


class _WholeChange(NamedTuple):
    """All that one `Advance` writes."""

    own: HeadChange
    jobs: list[tuple[list[Write], list[Item]]]
    withdrawn: list[SavePlan]

    @property
    def before(self) -> list[Item]:
        return [*self.own.before, *(item for _, before in self.jobs for item in before)]

    @property
    def group(self) -> list[Write]:
        writes = [*self.own.together, *(write for group, _ in self.jobs for write in group)]
        writes += [write for plan in self.withdrawn for write in plan.together]
        return merged({0: writes})[0]


class DynamoSchedules(DynamoJobs):
    """Implements `oncue.ports.schedules.ScheduleStore`."""

    def advance(self, advances: Sequence[Advance], now: Moment) -> Collection[int]:
        refused: set[int] = set()
        for part in rounds(dict(enumerate(advances)), _name):
            refused |= self._advance(part, now)
        applied = [one for at, one in enumerate(advances) if at not in refused]
        if any(not one.is_progress for one in applied):
            self._tell_settings(now)
        for job in (job for one in applied for job in one.jobs):
            self._news.add(job.queue, job.due_at)
        self._news.tell()
        return sorted(refused)

    def _advance(self, advances: Mapping[int, Advance], now: Moment) -> set[int]:
        """Changes of different schedules: those that are refused."""
        refused: set[int] = set()
        left = dict(advances)
        there: dict[str, Filed] = {}
        for _ in range(MOST_RACES):
            heads = self._heads(one.name for one in left.values())
            as_made = self._as_made(left.values(), now)
            stale = {
                at
                for at, one in left.items()
                if not heads[one.name].is_as(one.seen)
                or not all(outcome.job_id in as_made for outcome in one.withdrawn)
            }
            refused |= stale
            left = {at: one for at, one in left.items() if at not in stale}
            known = self._register({job.queue for one in left.values() for job in one.jobs}, now)
            known |= self._known({job.record.queue for job in as_made.values()})
            changes = {
                at: _WholeChange(
                    scheduled.change(heads[one.name], one, now),
                    list(self._creations(one, there, known, now)),
                    [self._withdrawal(as_made[o.job_id or ""], known, now) for o in one.withdrawn],
                )
                for at, one in left.items()
            }
            done = self._write_changes(changes, known)
            left = {at: one for at, one in left.items() if at not in done}
            if not left:
                return refused
            there = self.read(job.id for one in left.values() for job in one.jobs)
        raise too_many_races()

    def _creations(
        self, one: Advance, there: Mapping[str, Filed], known: Mapping[str, KnownQueue], now: Moment
    ) -> Iterator[tuple[list[Write], list[Item]]]:
        """What creates its jobs, but for those that are there already."""
        for job in one.jobs:
            old = there.get(job.id)
            if old is None or old.is_gone(now):
                record = Record.of(job, now)
                record.schedule = one.name
                ver = 0 if old is None else old.ver
                yield self._creation(record, known[job.queue], now, ver)

    def _as_made(self, advances: Iterable[Advance], now: Moment) -> dict[str, Filed]:
        """Of the jobs that are to be withdrawn: those which nobody has taken or changed."""
        wanted = {
            outcome.job_id: outcome
            for one in advances
            for outcome in one.withdrawn
            if outcome.job_id is not None
        }
        found = self.read(wanted)
        self._cover(found.values())
        return {
            job_id: job
            for job_id, job in found.items()
            if job.is_visible(now) and is_as_made(job.record.as_job(), wanted[job_id])
        }

    def _withdrawal(self, job: Filed, known: Mapping[str, KnownQueue], now: Moment) -> SavePlan:
        """Remove a job. For everybody it is long gone; its record stays for a day, so that a late
        waiting item is not taken."""
        saving = Saving(job, self._check_free(job))
        record = job.record
        record.end(Verb.CANCEL, now)
        record.hide()
        record.payload = b""
        plan = self._plan(saving, known[record.queue], now)
        ttl = as_ttl(plan.filed.until or 0)
        plan.filed.until = _LONG_GONE
        item = {**as_items(plan.filed, plan.filed.ver).item, "ttl": ttl}
        plan.together[0] = Put(item, unchanged(job.ver))
        return plan

    def _write_changes(
        self, changes: Mapping[int, _WholeChange], known: Mapping[str, KnownQueue]
    ) -> set[int]:
        """Those that were applied."""
        self.table.write(item for change in changes.values() for item in change.before)
        applied = self.table.apply([change.group for change in changes.values()])
        done = {at: changes[at] for at, was in zip(changes, applied, strict=True) if was}
        vain = [change.own for at, change in changes.items() if at not in done]
        self.table.write(
            removed=[
                *(key for change in done.values() for key in change.own.removed),
                *(Key(item["pk"], item["sk"]) for head in vain for item in head.before),
            ]
        )
        self._follow_up((plan for change in done.values() for plan in change.withdrawn), known)
        return set(done)

    # Reading.

    def schedule(self, name: str) -> Schedule | None:
        return self._schedules([name]).get(name)

    def schedules(self, after: str | None, limit: int) -> Sequence[Schedule]:
        return list(islice(self._every_schedule(after or "", limit), limit))

    def outcomes(self, name: str) -> Sequence[Outcome]:
        items = list(self.table.query(keys.schedule(name).pk, upto=f"o#{LAST}"))
        head = scheduled.read_head(next((one for one in items if one["sk"] == keys.HEAD), None))
        return scheduled.outcomes(name, head, [one for one in items if one["sk"] != keys.HEAD])

    def waking(self, until: Moment, limit: int) -> Sequence[Schedule]:
        found: dict[str, Schedule] = {}
        looks = [keys.waking(number) for number in range(keys.WAKE_SHARDS)]
        above, sure = "", 0
        while sure < limit:
            entries = self.table.first_entries(looks, above, keys.by_due(until, LAST), limit)
            named = {at: keys.read_by_due(at)[1] for at in entries}
            found |= self._schedules(name for name in named.values() if name not in found)
            # An entry that is late is none of the first: its schedule wakes at another moment.
            sure += sum(_wakes(found.get(name), until) == at for at, name in named.items())
            if len(entries) < limit:
                break
            above = entries[-1]
        waking = sorted(
            (at, one) for one in found.values() if (at := _wakes(one, until)) is not None
        )
        return [one for _, one in waking[:limit]]

    def timed_otherwise(
        self, digest_of: Callable[[str], str | None], limit: int
    ) -> Sequence[Schedule]:
        digests: dict[str, str | None] = {}

        def is_stale(one: Schedule) -> bool:
            if one.cron is None:
                return False
            if one.timezone not in digests:
                digests[one.timezone] = digest_of(one.timezone)
            return digests[one.timezone] not in (None, one.zone_digest)

        return list(islice(filter(is_stale, self._every_schedule()), limit))

    def _every_schedule(self, after: str = "", page: int = NAMES_AT_ONCE) -> Iterator[Schedule]:
        """All schedules behind that name, by name; so many are read at a time."""
        page = min(page, NAMES_AT_ONCE)
        while True:
            names = [item["sk"] for item in self.table.query(keys.SCHEDULES, after, limit=page)]
            found = self._schedules(names)
            yield from (found[name] for name in names if name in found)
            if len(names) < page:
                return
            after = names[-1]

    def _heads(self, names: Iterable[str]) -> dict[str, Scheduled]:
        wanted = dict.fromkeys(names)
        found = self.table.read(keys.schedule(name) for name in wanted)
        return {name: scheduled.read_head(found.get(keys.schedule(name))) for name in wanted}

    def _schedules(self, names: Iterable[str]) -> dict[str, Schedule]:
        """Those of these schedules that there are, whole. One whose payload is missing from the
        table is shown as paused: it makes no jobs."""
        found: dict[str, Schedule] = {}
        left, seen = list(names), dict[str, int]()
        for _ in range(MOST_RACES):
            heads = self._heads(left)
            apart = {
                name: keys.schedule_payload(name, head.payload_number)
                for name, head in heads.items()
                if head.payload_number is not None
            }
            payloads = self.table.read(apart.values())
            # A payload that is missing belonged to settings that were changed just now.
            absent = {name: heads[name].ver for name, key in apart.items() if key not in payloads}
            left = [name for name, ver in absent.items() if seen.get(name) != ver]
            seen = absent
            for name, head in heads.items():
                if head.schedule is None or name in left:
                    continue
                found[name] = head.schedule
                if name in absent:
                    log.error("schedule %s waits: its payload is missing from the table", name)
                    found[name] = replace(head.schedule, payload_json=MISSING, paused=True)
                elif name in apart:
                    payload = payloads[apart[name]]["payload"]
                    found[name] = replace(head.schedule, payload_json=payload)
            if not left:
                return self._shown(found)
        raise too_many_races()

    def _shown(self, found: Mapping[str, Schedule]) -> dict[str, Schedule]:
        """With `unfinished`, which follows from the last job."""
        ids = {one.progress.last_job_id for one in found.values()} - {None}
        jobs = self.read((job_id for job_id in ids if job_id is not None), what_was)
        unfinished = {job_id for job_id, job in jobs.items() if job.record.state not in FINAL}
        return {
            name: replace(one, unfinished=one.progress.last_job_id in unfinished)
            for name, one in found.items()
        }


def _name(one: Advance) -> list[str]:
    return [one.name]


def _wakes(schedule: Schedule | None, until: Moment) -> str | None:
    """Its place in the index, if it wakes until then."""
    if schedule is None or schedule.paused:
        return None
    wake_at = schedule.progress.wake_at
    if wake_at is None or wake_at > until:
        return None
    return keys.wake(schedule.name, wake_at).at
