"""Reading jobs from the table, and writing them back if they have not changed since.

A job is read as a `Filed`, its record is changed by what `core/record.py` decides, and `save`
writes it with all that goes with it: its place in line, its entry in the index, its key and its
owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import NamedTuple

from oncue.core.lifecycle import FINAL, LIVE, State
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.core.record import Record
from oncue.ports.clock import Clock
from oncue.stores.dynamodb import codec, keys
from oncue.stores.dynamodb.filed import (
    MISSING,
    Filed,
    as_items,
    forgotten_at,
    is_past,
    line_of,
    look_of,
    places,
    plain_turn,
    read_filed,
)
from oncue.stores.dynamodb.keys import Key
from oncue.stores.dynamodb.known import KnownQueue, QueueMemory
from oncue.stores.dynamodb.news import News
from oncue.stores.dynamodb.table import Table
from oncue.stores.dynamodb.writes import (
    ABSENT,
    PRESENT,
    Check,
    Expire,
    Item,
    Put,
    Remove,
    Write,
    as_ttl,
    has,
    mark,
    unchanged,
)

PARTS_STAY_MS = 3_600_000
"""So much longer than a record its parts are kept."""

Wanted = Callable[[str], bool]
"""Which of the parts that stand apart are read, by name."""


def everything(part: str) -> bool:
    return True


def what_was(part: str) -> bool:
    """Enough to decide on a claim."""
    return part == "result" or is_past(part)


class SavePlan(NamedTuple):
    """What one job's change needs, in this order."""

    before: list[Item]
    """Written first. Without the record, nothing refers to them."""
    together: list[Write]
    """The record, and what must not be written without it."""
    after: list[Item]
    removed: list[Key]
    released: list[Remove | Expire]
    """Keys that it holds no longer, unless another has taken them over; parts that the table may
    forget with it."""
    job: Filed
    """As it was read, but for its record."""
    filed: Filed
    """As it is then."""


@dataclass(slots=True)
class Saving:
    """A job to be saved."""

    job: Filed
    checks: list[Check] = field(default_factory=list)
    """What must hold besides: that no range covers it, for example."""
    takes_key_from: str | None = None
    """The job that is over and still holds the key that this one needs."""
    is_unrivalled: bool = False
    """Whether no dispatcher can have delivered it meanwhile: none has ever been there, or it is the
    one who saves it."""


class Filing:
    """What all parts of the store share."""

    def __init__(self, table: Table, clock: Clock, shards: int) -> None:
        self.table = table
        self.clock = clock
        self._memory = QueueMemory(shards, clock)
        self._news = News()

    # Queues.

    def _fresh(self, names: Iterable[str]) -> dict[str, KnownQueue]:
        """The queues of these names as they are now."""
        wanted = dict.fromkeys(names)
        found = self.table.read(map(keys.queue, wanted))
        return {name: self._memory.learn(name, found.get(keys.queue(name))) for name in wanted}

    def _fresh_queue(self, name: str) -> KnownQueue:
        return self._fresh([name])[name]

    def _all_queues(self) -> list[KnownQueue]:
        """Every queue, also those that were deleted lately."""
        items = self.table.query(keys.QUEUES)
        return [self._memory.learn(item["sk"], item) for item in items]

    def _known(self, names: Iterable[str]) -> dict[str, KnownQueue]:
        """As they were within the last seconds."""
        wanted = dict.fromkeys(names)
        self._fresh(self._memory.outdated(wanted))
        return {name: self._memory.get(name) for name in wanted}

    def _register(self, names: Iterable[str], now: Moment) -> dict[str, KnownQueue]:
        """The queues of jobs that are stored, created if the table does not have them."""
        known = self._known(names)
        for name, queue in known.items():
            while not queue.exists:
                made = self._memory.new(name) if not queue.ver else replace(queue, deleted_at=None)
                ver = max(now, queue.ver + 1)
                if self.table.put(made.as_item(ver), unchanged(queue.ver)):
                    self._tell_settings(now)
                queue = self._fresh_queue(name)
            known[name] = queue
        return known

    def _tell_settings(self, now: Moment) -> None:
        """Settings have changed: tell listeners here, and let other processes notice it."""
        self.table.put({**keys.CHANGES._asdict(), "ver": now, "mark": mark()})
        self._news.add(None, 0)

    # Reading.

    def read(self, ids: Iterable[str], wanted: Wanted = everything) -> dict[str, Filed]:
        """Those of these jobs of which the table knows anything."""
        spots = self._spots(ids)
        found = self.table.read(key for some in spots.values() for key in some)
        missed = [
            job_id
            for job_id, some in spots.items()
            if len(some) > 1 and found.keys().isdisjoint(some)
        ]
        if missed:
            spots |= self._spots_by_now(missed)
            found |= self.table.read_at_once([spots[job_id] for job_id in missed])
        return self.parse(_first_found(spots, found), wanted)

    def read_records(self, ids: Iterable[str], wanted: Wanted = everything) -> dict[str, Filed]:
        """Those of these jobs that have a record: all that the index names have one."""
        spots = {job_id: [keys.job(job_id)] for job_id in ids}
        found = self.table.read(key for some in spots.values() for key in some)
        return self.parse(_first_found(spots, found), wanted)

    def read_claimed(self, ids: Sequence[str], wanted: Wanted = everything) -> dict[str, Filed]:
        """As `read`, for jobs that somebody has claimed: nearly all of them have a record, and only
        the others are looked for elsewhere."""
        found = self.read_records(ids, wanted)
        missing = [job_id for job_id in ids if job_id not in found]
        return found | self.read(missing, wanted) if missing else found

    def _spots_by_now(self, ids: Sequence[str]) -> dict[str, list[Key]]:
        """Where jobs may be that were not found. One may have got its record and left its line
        between the two reads; or another node has spread its queue over more shards."""
        turns = (plain_turn(job_id) for job_id in ids)
        digests = {one[1] for one in turns if one is not None}
        self._fresh(known.name for digest in digests for known in self._memory.of_digest(digest))
        return self._spots(ids)

    def _spots(self, ids: Iterable[str]) -> dict[str, list[Key]]:
        """Where jobs may be: their records, and the places in which they wait if they are plain."""
        turns = {job_id: plain_turn(job_id) for job_id in ids}
        if not all(self._memory.of_digest(one[1]) for one in turns.values() if one is not None):
            self._all_queues()
        spots = {job_id: [keys.job(job_id)] for job_id in turns}
        for job_id, one in turns.items():
            if one is not None:
                turn, queues = one[0], self._memory.of_digest(one[1])
                lines = {pk for known in queues for pk in known.lines_of(job_id)}
                spots[job_id] += [Key(pk, keys.place(turn, 0)) for pk in sorted(lines)]
        return spots

    def parse(self, items: Mapping[str, Item], wanted: Wanted = everything) -> dict[str, Filed]:
        """Jobs from their items (records, or waiting items of plain jobs), with their parts."""
        shown = {job_id: codec.from_text(item["rec"]) for job_id, item in items.items()}
        sides = {
            keys.side(job_id, part, number): (job_id, part)
            for job_id, one in shown.items()
            for part, number in one.get("sides", {}).items()
            if wanted(part)
        }
        parts: dict[str, dict[str, bytes]] = {job_id: {} for job_id in items}
        found = self.table.read(sides)
        for key, side in found.items():
            job_id, part = sides[key]
            parts[job_id][part] = side["part"]
        missing = [one for key, one in sides.items() if key not in found]
        for job_id, part in missing:
            parts[job_id][part] = MISSING
        changed = self._outdated({job_id: items[job_id] for job_id, _ in missing})
        filed = {
            job_id: read_filed(job_id, item, shown[job_id], parts[job_id])
            for job_id, item in items.items()
            if job_id not in changed
        }
        again = {job_id: item for job_id, item in changed.items() if item is not None}
        return filed | self.parse(again, wanted) if again else filed

    def _outdated(self, items: Mapping[str, Item]) -> dict[str, Item | None]:
        """Those of these items that are no longer as they were read, and what is there now. Whoever
        changes a job removes the parts that it does not need any more."""
        spots = {
            job_id: (keys.job(job_id), Key(item["pk"], item["sk"]))
            for job_id, item in items.items()
        }
        found = self.table.read(key for some in spots.values() for key in some)
        there = _first_found(spots, found)
        return {name: there.get(name) for name, item in items.items() if there.get(name) != item}

    # Writing.

    def save(self, savings: Sequence[Saving], now: Moment) -> list[bool]:
        """Write jobs that were changed, each with what goes with it. Whether each was: False means
        that it is no longer as it was read. A deleted queue in which one waits is there again."""
        if not savings:
            return []
        records = [one.job.record for one in savings]
        known = self._known({one.queue for one in records})
        known |= self._register({one.queue for one in records if one.state is State.SCHEDULED}, now)
        plans = [self._plan(one, known[one.job.record.queue], now) for one in savings]
        self.table.write(item for plan in plans for item in plan.before)
        done = self._apply(plans, known, now)
        self._follow_up(compress(plans, done), known)
        return done

    def _follow_up(self, plans: Iterable[SavePlan], known: Mapping[str, KnownQueue]) -> None:
        """What comes after the records that were written."""
        applied = list(plans)
        self.table.write(
            (item for plan in applied for item in plan.after),
            (key for plan in applied for key in plan.removed),
        )
        self.table.write_each([one for plan in applied for one in plan.released])
        for plan in applied:
            for name in Filed.__slots__:
                setattr(plan.job, name, getattr(plan.filed, name))
            self._announce(plan, known[plan.filed.record.queue])

    def _apply(
        self, plans: Sequence[SavePlan], known: Mapping[str, KnownQueue], now: Moment
    ) -> list[bool]:
        """Write the records, each with what must not be written without it."""
        return self.table.apply([plan.together for plan in plans])

    def _plan(self, saving: Saving, known: KnownQueue, now: Moment) -> SavePlan:
        job = saving.job
        record = job.record
        ver = max(now, job.ver + 1)
        line = line_of(record, known, ver)
        # A plain job that gets a record gets another place: a dispatcher that has delivered it, and
        # does not know of the record, may remove its item at any moment.
        if line is not None and job.line is not None and job.ver and line.is_same_place(job.line):
            line = job.line
        then = replace(
            job,
            ver=ver,
            line=line,
            look=look_of(record, known, job.look),
            counted=record.state in LIVE and (job.counted or known.queue.concurrency is not None),
            until=_forgotten_at(job, known.queue),
        )
        is_revived = job.until is not None and then.until is None
        written = as_items(then, ver, all_anew=is_revived)
        then.sides = written.sides
        then.contents = {**job.contents, **written.apart}
        plan = SavePlan([], [Put(written.item, unchanged(job.ver))], [], [], [], job, then)
        self._plan_parts(plan, written.apart)
        self._plan_line(plan, saving)
        self._plan_key(plan, saving)
        self._plan_owner(plan)
        plan.together.extend(saving.checks)
        return plan

    def _plan_parts(self, plan: SavePlan, new: Mapping[str, bytes]) -> None:
        """The table forgets them soon after the record: to a clock that is behind, the record may
        still be there. A revived job has copies of its own: whoever finished it may still be about
        to say when the former ones are forgotten."""
        job = plan.job
        until = None if plan.filed.until is None else plan.filed.until + PARTS_STAY_MS
        for name, number in plan.filed.sides.items():
            key = keys.side(job.id, name, number)
            if name in new:
                plan.before.append(_with_ttl({**key._asdict(), "part": new[name]}, until))
            elif until is not None and plan.filed.until != job.until:
                plan.released.append(Expire(key, as_ttl(until)))
        for name, number in job.sides.items():
            if plan.filed.sides.get(name) != number:
                plan.removed.append(keys.side(job.id, name, number))

    def _plan_line(self, plan: SavePlan, saving: Saving) -> None:
        """A new place in line is written with the record; leaving the line comes after it, because
        a record beats a waiting item that does not fit. A plain job has no record that would tell
        that it was delivered and is gone: its item must still be there."""
        line, was = plan.filed.line, saving.job.line
        if line == was:
            return
        if line is not None:
            plan.together.extend(map(Put, places(plan.filed)))
        if was is None:
            return
        if saving.job.is_plain and not saving.is_unrivalled:
            plan.together.extend(Remove(key, PRESENT) for key in was.keys)
        elif line is not None:
            plan.together.extend(Remove(key) for key in was.keys)
        else:
            plan.removed.extend(was.keys)

    def _plan_key(self, plan: SavePlan, saving: Saving) -> None:
        """The key of a job is held by an item of its own, as long as the job is not over."""
        job, record = saving.job, saving.job.record
        if record.key is None:
            return
        held = record.queue if record.state not in FINAL else None
        plan.filed.key_of = held
        if held is not None and held != job.key_of:
            plan.together.append(hold_key(record, saving.takes_key_from))
        if job.key_of is not None and held != job.key_of:
            plan.released.append(Remove(keys.holder(job.key_of, record.key), has("id", job.id)))
        if held is None and not record.hidden:
            place = keys.by_due(record.due_at, record.id)
            item: Item = {"pk": keys.keyed(record.queue, record.key), "sk": place}
            plan.after.append(_with_ttl(item, plan.filed.until))

    def _plan_owner(self, plan: SavePlan) -> None:
        """A list of an owner's jobs may have places that are not true any more; who reads it sees
        that from the record."""
        job, record = plan.job, plan.job.record
        if record.owner is None:
            return
        place = keys.by_due(record.due_at, record.id)
        plan.filed.owned_at = None if record.hidden else place
        item: Item = {"pk": keys.owned(record.owner), "sk": place}
        if job.owned_at is not None and plan.filed.owned_at != job.owned_at:
            plan.removed.append(Key(item["pk"], job.owned_at))
        if record.hidden:
            return
        is_revived = job.until is not None and plan.filed.until is None
        if plan.filed.owned_at != job.owned_at or is_revived:
            plan.before.append(item)
        if plan.filed.until is not None:
            plan.after.append(_with_ttl(item, plan.filed.until))

    def _announce(self, plan: SavePlan, known: KnownQueue) -> None:
        record = plan.filed.record
        if record.state is State.SCHEDULED:
            self._news.add(record.queue, record.not_before or record.due_at)
        if known.queue.concurrency is not None and record.state not in LIVE:
            self._news.add(record.queue, 0)


def _first_found(spots: Mapping[str, Iterable[Key]], found: Mapping[Key, Item]) -> dict[str, Item]:
    """By name, the first of its items that was found, if any was."""
    firsts = {name: next(filter(found.__contains__, some), None) for name, some in spots.items()}
    return {name: found[key] for name, key in firsts.items() if key is not None}


def hold_key(record: Record, taken_from: str | None = None) -> Put:
    """Make a job the holder of its key, which nobody holds, or a job that is over."""
    assert record.key is not None
    item = {**keys.holder(record.queue, record.key)._asdict(), "id": record.id}
    return Put(item, ABSENT if taken_from is None else has("id", taken_from))


def _forgotten_at(job: Filed, queue: Queue) -> Moment | None:
    """When the table may forget a job as it is now. For one that was over before, that is never
    later than it was: its parts may be forgotten then."""
    until = forgotten_at(job.record, queue)
    if job.until is None or job.record.state not in FINAL:
        return until
    return job.until if until is None else min(job.until, until)


def _with_ttl(item: Item, until: Moment | None) -> Item:
    return item if until is None else {**item, "ttl": as_ttl(until)}
