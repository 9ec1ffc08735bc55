"""From a dump into a store, page by page. What is there already is left alone, so a restore that
was interrupted is simply repeated."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import BinaryIO

import msgspec

from oncue.core import ids
from oncue.core.dumped import DumpedEvent, DumpedJob, key_taken
from oncue.core.errors import EventIdTaken, InvalidInput, KeyTaken, StoreError
from oncue.core.job import Job, JobFilter
from oncue.core.lifecycle import FINAL, LIVE, State
from oncue.core.publication import LoggedEvent
from oncue.core.queue import Queue, check_queue_name
from oncue.core.recurrence import Outcome
from oncue.core.rule import Rule
from oncue.core.schedule import Schedule
from oncue.core.standing import Sightings
from oncue.ports.schedules import Advance
from oncue.ports.store import Store
from oncue.transfer.dump import PAGE, PAGE_BYTES, DumpProgress
from oncue.usecases import intake
from oncue.usecases.queues import put_queue, set_paused
from oncue.wire import dump
from oncue.wire.converting import read
from oncue.wire.dump import DumpCounts, DumpLine


@dataclass(slots=True)
class Restored:
    """What became of a dump."""

    stored: int = 0
    existing: int = 0
    """Jobs whose ids were there already; they were left alone."""
    queues: int = 0
    schedules: int = 0
    rules: int = 0
    events: int = 0
    kept_queues: list[str] = field(default_factory=list)
    """Queues that had other settings, which they keep."""
    kept_schedules: list[str] = field(default_factory=list)
    """The same of schedules …"""
    kept_rules: list[str] = field(default_factory=list)
    """… and of rules; also rules that are the same but were made by somebody else."""
    paused: list[str] = field(default_factory=list)
    paused_before: list[str] = field(default_factory=list)
    """Those of the paused queues that were paused when they were dumped."""
    released: list[str] = field(default_factory=list)


class Restore:
    """One dump on its way into a store.

    Every queue in it is paused before its first job comes, so that nothing is delivered before
    somebody has had a look. `release` lets those go that were not paused when they were dumped.
    Schedules are stored last: what a dump lacks, because it is torn, they do not make again.
    """

    def __init__(
        self,
        store: Store | None,
        *,
        create: Callable[[], Store] | None = None,
        dry_run: bool = False,
    ) -> None:
        """A `store` of None is one that does not exist yet. `create` makes it as soon as a first
        page has been understood, so that a dump which is refused leaves no empty store behind; a
        dry run never calls it."""
        self.result = Restored()
        self._store = store
        self._create = create
        self._dry_run = dry_run
        self._known = {} if store is None else {queue.name: queue for queue in store.queues()}
        self._seen: dict[str, bool] = {}  # the queues of the dump, and whether they were paused
        self._queues: list[Queue] = []  # understood, to be stored with the next page
        self._to_pause: list[str] = []  # as soon as that page comes
        self._keys: set[tuple[str, str]] = set()  # of unfinished jobs that were only looked at
        self._counts = DumpCounts(0, 0)
        self._schedules: list[tuple[Schedule, Sequence[Outcome]]] = []
        self._rules: list[Sightings] = []
        self._same_rules: set[str] = set()  # those that are here as the dump has them
        self._facts: set[bytes] | None = None  # of the events that are here; of a dry run
        self._events: list[DumpedEvent] = []
        self._page: list[DumpedJob] = []
        self._page_bytes = 0
        self._first_line = 0

    def read(
        self, source: BinaryIO, told: Callable[[DumpProgress], None] = lambda progress: None
    ) -> Restored:
        """Take everything in. A page is stored when all of it has been understood."""
        size, end = 0, None
        for number, text in enumerate(source, 1):
            try:
                line = _understood(text, number, end)
                if line is None:
                    break
                self._take(line, number)
            except InvalidInput as problem:
                raise InvalidInput(f"line {number}: {problem}{self._so_far()}") from None
            size, end = size + len(text), line.end
            length = len(self._page) + len(self._rules) + len(self._events)
            full = length >= PAGE or self._page_bytes >= PAGE_BYTES
            if full or line.mark is not None or end is not None:
                self._store_page(number)
                told(DumpProgress(self._counts, size))
        if end is None:
            raise InvalidInput(
                f"the dump is torn: it stops without an end.{self._so_far()} Finish the dump with "
                "'oncue dump FILE --resume' and restore it again."
            )
        if end != self._counts:
            raise InvalidInput(
                f"the dump should have {_said(end)}, but has {_said(self._counts)}: lines are "
                f"missing.{self._so_far()}"
            )
        for schedule, outcomes in self._schedules:
            self._store_schedule(schedule, outcomes)
        return self.result

    def release(self) -> None:
        """Let the queues go that were going when they were dumped."""
        going = [name for name, was_paused in self._seen.items() if not was_paused]
        if self._store is not None and not self._dry_run:
            for name in going:
                set_paused(self._store, name, False)
        self.result.released = going
        self.result.paused = [name for name in self.result.paused if name not in going]

    def _take(self, line: DumpLine, number: int) -> None:
        if not (self._page or self._rules or self._events):
            self._first_line = number
        if line.queue is not None:
            self._counts.queues += 1
            self._take_queue(line.queue)
        elif line.schedule is not None:
            self._counts.schedules += 1
            outcomes = [read(Outcome, one) for one in line.schedule.outcomes]
            self._schedules.append((line.schedule.schedule(), outcomes))
            if line.schedule.emits is None:
                self._pause(line.schedule.queue)
        elif line.rule is not None:
            self._counts.rules += 1
            self._rules.append(line.rule.read())
            self._pause(line.rule.queue)
        elif line.event is not None:
            self._counts.events += 1
            self._events.append(line.event.dumped())
        elif line.job is not None:
            self._counts.jobs += 1
            dumped = checked(line.job.dumped())
            self._page.append(dumped)
            self._page_bytes += len(dumped.job.payload_json) + len(dumped.job.result_json or b"")

    def _take_queue(self, queue: Queue) -> None:
        known = self._known.get(queue.name)
        if known is None:
            self.result.queues += 1
            self._queues.append(queue)
        elif not _alike(known, queue):
            self.result.kept_queues.append(queue.name)
        self._pause(queue.name)
        self._seen[queue.name] = queue.paused
        self.result.paused_before = [name for name, paused in self._seen.items() if paused]

    def _pause(self, name: str) -> None:
        if name in self._seen:
            return
        self._seen[name] = False
        self.result.paused.append(name)
        self._to_pause.append(name)

    def _store_page(self, number: int) -> None:
        page, self._page, self._page_bytes = self._page, [], 0
        for dumped in page:
            if dumped.job.state not in FINAL:
                self._pause(dumped.job.queue)
        try:
            stored = self._foresee(page) if self._dry_run else self._admit(page)
            self._store_rules()
            self._store_events()
        except (KeyTaken, EventIdTaken, StoreError) as problem:
            where = f"lines {self._first_line} to {number}: "
            raise type(problem)(f"{where}{problem}{self._so_far()}") from problem
        self.result.stored += stored
        self.result.existing += len(page) - stored

    def _admit(self, page: list[DumpedJob]) -> int:
        if self._store is None:
            assert self._create is not None
            self._foresee(page)
            self._store = self._create()
        for queue in self._queues:
            put_queue(self._store, queue)
        for name in self._to_pause:
            set_paused(self._store, name, True)
        self._queues, self._to_pause = [], []
        return self._store.admit(page) if page else 0

    def _store_rules(self) -> None:
        rules, self._rules = self._rules, []
        new: list[Sightings] = []
        for seen in rules:
            rule = seen.rule
            known = None if self._store is None else self._store.rule(rule.name)
            if known is None:
                new.append(seen)
            elif known.created_at != rule.created_at or not _same_settings(known, rule):
                self.result.kept_rules.append(rule.name)
            if known is None or known.created_at == rule.created_at:
                self._same_rules.add(rule.name)
        self.result.rules += len(new)
        if new and self._store is not None and not self._dry_run:
            self._store.admit_rules(new, [])

    def _store_events(self) -> None:
        """Store events with the decisions of those rules that are here as the dump has them."""
        events, self._events = self._events, []
        if self._dry_run:
            known = self._known_facts() if events else set()
            self.result.events += sum(_fact(one.logged) not in known for one in events)
        elif events and self._store is not None:
            wanted = [self._of_same_rules(one) for one in events]
            self.result.events += self._store.admit_rules([], wanted).events

    def _of_same_rules(self, dumped: DumpedEvent) -> DumpedEvent:
        decisions = dumped.logged.decisions
        places = [place for place, one in enumerate(decisions) if one.rule in self._same_rules]
        return DumpedEvent(
            replace(dumped.logged, decisions=tuple(decisions[place] for place in places)),
            tuple(new for new, place in enumerate(places) if place in dumped.accepted),
        )

    def _known_facts(self) -> set[bytes]:
        """Of the events that are in the store."""
        if self._facts is None:
            self._facts, after = set(), None
            while self._store is not None:
                export = self._store.export_events(after, PAGE)
                self._facts |= {_fact(one.logged) for one in export.events}
                if (after := export.next) is None:
                    break
        return self._facts

    def _store_schedule(self, schedule: Schedule, outcomes: Sequence[Outcome]) -> None:
        store = self._store
        known = None if store is None else store.schedule(schedule.name)
        if known is not None:
            if known.settings != schedule.settings:
                self.result.kept_schedules.append(schedule.name)
            return
        self.result.schedules += 1
        if store is not None and not self._dry_run:
            store.advance([Advance(None, schedule, outcomes=outcomes)], store.clock.now())

    def _foresee(self, page: list[DumpedJob]) -> int:
        """What `admit` would answer; `KeyTaken` if it would refuse a job."""
        new = [dumped.job for dumped in page if self._get(dumped.job.id) is None]
        for job in new:
            if job.key is None or job.state in FINAL:
                continue
            if (job.queue, job.key) in self._keys or self._is_held(job.queue, job.key):
                raise key_taken(job)
            self._keys.add((job.queue, job.key))
        return len(new)

    def _get(self, job_id: str) -> Job | None:
        return None if self._store is None else self._store.get(job_id)

    def _is_held(self, queue: str, key: str) -> bool:
        """Whether an unfinished job of the store has the key."""
        wanted, after = JobFilter(queue=queue, key=key), None
        while self._store is not None:
            page = self._store.page(wanted, after, PAGE)
            if any(job.state not in FINAL for job in page.items):
                return True
            if (after := page.next) is None:
                break
        return False

    def _so_far(self) -> str:
        if self._dry_run:
            return ""
        done = self.result.stored + self.result.existing
        return f" The first {done:,} jobs are stored; a repeated restore skips them."


def _same_settings(one: Rule, other: Rule) -> bool:
    names = ("dependencies", "enabled", "queue", "payload_json")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _fact(logged: LoggedEvent) -> bytes:
    """An event in few bytes: a store may have many."""
    return blake2b(repr(logged.event.fact).encode(), digest_size=16).digest()


def _said(counts: DumpCounts) -> str:
    """As many as there are of each."""
    named = msgspec.structs.asdict(counts)
    return " and ".join(
        f"{count:,} {name}" for name, count in named.items() if count or name in ("jobs", "queues")
    )


def _alike(known: Queue, queue: Queue) -> bool:
    """Whether two queues have the same settings, paused or not."""
    return all(
        getattr(known, name) == getattr(queue, name)
        for name in Queue.__dataclass_fields__
        if name != "paused"
    )


def checked(found: DumpedJob) -> DumpedJob:
    """Refuse what no store would have let happen."""
    job, attempts = found.job, found.history.attempts
    held = bool(attempts) and attempts[-1].outcome is None
    wrong = None
    if (job.state in FINAL) != (job.finished_at is not None):
        wrong = f"is {job.state} " + ("with" if job.finished_at else "without") + " finished_at"
    elif (job.state in LIVE) != held:
        wrong = f"is {job.state}, but its last attempt " + ("goes on" if held else "is over")
    elif job.state is State.SCHEDULED and job.cancel_requested:
        wrong = "is scheduled, but a cancel was requested"
    elif job.state is not State.SCHEDULED and job.not_before is not None:
        wrong = f"is {job.state}, but put off"
    elif job.attempt < job.attempt_base:
        wrong = "has an attempt below its attempt_base"
    elif not _readable(job.payload_json) or not _readable(job.result_json):
        wrong = "has a payload or a result that is not JSON"
    if wrong is not None:
        raise InvalidInput(f"job {job.id!r} {wrong}.")
    check_queue_name(job.queue, f"job {job.id!r}")
    ids.check_id(job.id, f"job {job.id!r}")
    intake.label(job.owner, f"job {job.id!r}: owner")
    intake.label(job.key, f"job {job.id!r}: key")
    return found


def _readable(body: bytes | None) -> bool:
    try:
        return body is None or json.loads(body) is not Ellipsis
    except (ValueError, RecursionError):
        return False


def _understood(text: bytes, number: int, end: DumpCounts | None) -> DumpLine | None:
    """What a line says; None: it is the torn end of the file."""
    if number == 1:
        dump.check_header(text)
    if not text.endswith(b"\n"):
        return None
    if end is not None:
        raise InvalidInput("something follows the end of the dump.")
    line = dump.decode(text)
    if line.header is not None and number > 1:
        raise InvalidInput("a second header; are these two dumps in one file?")
    return line
