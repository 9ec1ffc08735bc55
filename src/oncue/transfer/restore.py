"""From a dump into a store, page by page. Jobs and settings that the store has already stay, so a
restore that was interrupted is simply repeated."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from oncue.core.cursor import every_item
from oncue.core.dumped import DumpedEvent, DumpedJob, key_taken
from oncue.core.errors import EventIdTaken, InvalidInput, KeyTaken, StoreError
from oncue.core.event import made_id
from oncue.core.lifecycle import FINAL
from oncue.core.queue import Queue
from oncue.core.recurrence import Outcome
from oncue.core.rule import Rule
from oncue.core.schedule import Schedule
from oncue.core.standing import Sightings
from oncue.ports.schedules import Advance
from oncue.ports.store import Store
from oncue.transfer.checks import check_job, check_part
from oncue.transfer.dump import PAGE, PAGE_BYTES, Notify
from oncue.transfer.passing import PassedKeys, holders, supersede
from oncue.usecases.queues import check_stream, put_queue, queue_of, set_paused
from oncue.usecases.rules import rule_of
from oncue.wire import dump
from oncue.wire.dump import (
    KINDS,
    DumpCounts,
    EventLine,
    Header,
    JobLine,
    Part,
    RuleLine,
    ScheduleLine,
)

LONGEST_LINE = 64 * 1024 * 1024
"""More than a job can have, with its history and the results of its operations."""


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
    """… and of rules; also rules that are the same but were created separately."""
    paused: list[str] = field(default_factory=list)
    paused_before: list[str] = field(default_factory=list)
    """Those of the paused queues that were paused when they were dumped."""
    released: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Page:
    """What has been understood, and is stored next."""

    first_line: int
    queues: list[Queue] = field(default_factory=list)
    to_pause: list[str] = field(default_factory=list)
    rules: list[Sightings] = field(default_factory=list)
    events: list[DumpedEvent] = field(default_factory=list)
    jobs: list[DumpedJob] = field(default_factory=list)
    job_bytes: int = 0
    formers: dict[str, int] = field(default_factory=dict)
    """By the id of a job: the job of the dump that had its key before, see `PassedKeys.take`."""

    @property
    def is_full(self) -> bool:
        length = len(self.jobs) + len(self.rules) + len(self.events)
        return length >= PAGE or self.job_bytes >= PAGE_BYTES


class Restore:
    """One dump on its way into a store.

    Every queue in it is paused before its first job comes, so that nothing is delivered before a
    person has looked. `release` resumes those that were not paused when they were dumped.
    Schedules are stored last: what a dump lacks, because it is torn, they do not make again.
    """

    def __init__(
        self, store: Store, *, create: Callable[[], Store] | None = None, dry_run: bool = False
    ) -> None:
        """With `create` the store does not exist yet, and `store` is an empty one that stands for
        it. `create` makes the store as soon as a first page has been understood, so that a dump
        which is refused leaves no empty store behind; a dry run never calls it."""
        self.result = Restored()
        self._store = store
        self._create = create
        self._dry_run = dry_run
        self._known = {queue.name: queue for queue in store.queues()}
        self._seen: dict[str, bool] = {}  # the queues of the dump, and whether they were paused
        self._keys = PassedKeys()
        self._counts = DumpCounts(0, 0)
        self._schedules: list[tuple[Schedule, Sequence[Outcome]]] = []
        self._same_rules: set[str] = set()  # those that are here as the dump has them
        self._page = _Page(1)

    def read(self, source: Iterable[bytes], notify: Notify = lambda counts, size: None) -> Restored:
        """Take everything in. A page is stored when all of it has been understood."""
        size, last = 0, None
        for number, text in enumerate(_lines(source), 1):
            try:
                part = _understood(text, number, last)
                if part is None:
                    break
                check_part(KINDS[type(part)], part, self._store.clock.now())
                self._take(part)
            except InvalidInput as problem:
                raise InvalidInput(f"line {number}: {problem}{self._so_far()}") from None
            size, last = size + len(text), part
            if self._page.is_full or isinstance(part, DumpCounts):  # a mark, or the end
                self._store_page(number)
                notify(self._counts, size)
        if type(last) is not DumpCounts:
            raise InvalidInput(
                f"the dump is torn: it stops without an end.{self._so_far()} Finish the dump with "
                "'oncue dump FILE --resume' and restore it again."
            )
        if last != self._counts:
            raise InvalidInput(
                f"the dump should have {last}, but has {self._counts}: lines are missing."
                f"{self._so_far()}"
            )
        for schedule, outcomes in self._schedules:
            self._store_schedule(schedule, outcomes)
        return self.result

    def release(self) -> None:
        """Let the queues go that were going when they were dumped, and can be here."""
        were_going = [name for name, was_paused in self._seen.items() if not was_paused]
        going = [name for name in were_going if self._can_go(name)]
        if not self._dry_run:
            for name in going:
                set_paused(self._store, name, False)
        self.result.released = going
        self.result.paused = [name for name in self.result.paused if name not in going]

    def _can_go(self, name: str) -> bool:
        try:
            check_stream(queue_of(self._store, name), self._store)
        except InvalidInput:  # 'oncue queues resume' tells why
            return False
        return True

    def _take(self, part: Part) -> None:
        self._counts.add(part)
        match part:
            case Queue():
                self._take_queue(part)
            case ScheduleLine():
                self._schedules.append(part.dumped())
                if part.emits is None:
                    self._pause(part.queue)
            case RuleLine():
                self._page.rules.append(part.dumped())
                self._pause(part.queue)
            case EventLine():
                self._page.events.append(part.dumped())
            case JobLine():
                dumped = check_job(part.dumped())
                former = self._keys.take(dumped.job)
                if former is not None:
                    self._page.formers[dumped.job.id] = former
                self._page.jobs.append(dumped)
                self._page.job_bytes += dumped.size

    def _take_queue(self, queue: Queue) -> None:
        known = self._known.get(queue.name)
        if known is None:
            self.result.queues += 1
            self._page.queues.append(queue)
        elif replace(known, paused=queue.paused) != queue:
            self.result.kept_queues.append(queue.name)
        self._pause(queue.name)
        self._seen[queue.name] = queue.paused
        self.result.paused_before = [name for name, paused in self._seen.items() if paused]

    def _pause(self, name: str) -> None:
        if name not in self._seen:
            self._seen[name] = False
            self.result.paused.append(name)
            self._page.to_pause.append(name)

    def _store_page(self, number: int) -> None:
        page = self._page
        for dumped in page.jobs:
            if dumped.job.state not in FINAL:
                self._pause(dumped.job.queue)
        try:
            rules = [one for one in page.rules if self._is_new(one.rule)]
            if self._dry_run or self._create is not None:
                stored, events = self._foresee(page), self._foresee_events(page.events)
            if not self._dry_run:
                stored, events = self._admit(page, rules)
        except (KeyTaken, EventIdTaken, StoreError) as problem:
            where = f"lines {page.first_line} to {number}: "
            if isinstance(problem, StoreError) and self._create is not None:
                where = ""  # the store cannot be made, whatever the lines are
            so_far = self._so_far()
            if not self._dry_run and self._create is None:  # a page is not stored as a whole
                so_far = (
                    " A part of these lines may be stored, and their queues are paused. Solve this "
                    "and restore the dump again: what is stored already is skipped."
                )
            raise type(problem)(f"{where}{problem}{so_far}") from problem
        self.result.rules += len(rules)
        self.result.events += events
        self.result.stored += stored
        self.result.existing += len(page.jobs) - stored
        self._page = _Page(number + 1)

    def _admit(self, page: _Page, rules: Sequence[Sightings]) -> tuple[int, int]:
        """Store all of it; how many jobs and events were new."""
        if self._create is not None:
            self._store, self._create = self._create(), None
        for queue in page.queues:
            put_queue(self._store, queue)
        for name in page.to_pause:
            set_paused(self._store, name, True)
        events = [self._of_same_rules(one) for one in page.events]
        return self._admit_jobs(page), self._store.admit_rules(rules, events)

    def _admit_jobs(self, page: _Page) -> int:
        """Jobs whose key another job of the dump had before come last, one after the other. Where
        such a job is stored already, the key may have passed on since."""
        formers = page.formers
        stored = self._store.admit([one for one in page.jobs if one.job.id not in formers])
        for one in page.jobs:
            if one.job.id in formers and self._store.get(one.job.id) is None:
                supersede(self._store, one.job, formers[one.job.id])
                stored += self._store.admit([one])
        return stored

    def _is_new(self, rule: Rule) -> bool:
        """Whether there is no rule of that name; else whether it is the same one is noted."""
        known = rule_of(self._store, rule.name)
        if known is None or known.created_at == rule.created_at:
            self._same_rules.add(rule.name)
        if known is not None and not _is_same_rule(known, rule):
            self.result.kept_rules.append(rule.name)
        return known is None

    def _of_same_rules(self, dumped: DumpedEvent) -> DumpedEvent:
        """The event with the decisions of those rules that are here as the dump has them."""
        decisions = dumped.logged.decisions
        places = [place for place, one in enumerate(decisions) if one.rule in self._same_rules]
        return dumped._replace(
            logged=replace(dumped.logged, decisions=tuple(decisions[place] for place in places)),
            accepted=tuple(new for new, place in enumerate(places) if place in dumped.accepted),
        )

    def _store_schedule(self, schedule: Schedule, outcomes: Sequence[Outcome]) -> None:
        known = self._store.schedule(schedule.name)
        if known is None:
            self.result.schedules += 1
            if not self._dry_run:
                change = Advance(None, schedule, outcomes=outcomes)
                self._store.advance([change], self._store.clock.now())
        elif known.settings != schedule.settings:
            self.result.kept_schedules.append(schedule.name)

    def _foresee(self, page: _Page) -> int:
        """How many jobs are new; `KeyTaken` if one would be refused."""
        new = [one.job for one in page.jobs if self._store.get(one.job.id) is None]
        for job in new:
            if job.key is None or job.state in FINAL:
                continue
            former = page.formers.get(job.id)
            if any(hash(one.id) != former for one in holders(self._store, job)):
                raise key_taken(job)
        return len(new)

    def _foresee_events(self, events: Sequence[DumpedEvent]) -> int:
        """How many events are new."""
        known = self._known_events if events else frozenset()
        return sum(made_id(*one.logged.event.fact) not in known for one in events)

    @cached_property
    def _known_events(self) -> Collection[str]:
        """The events of the store, each by an id made from its fact."""
        events = every_item(self._store.export_events)
        return {made_id(*one.logged.event.fact) for one in events}

    def _so_far(self) -> str:
        if self._dry_run:
            return ""
        if self._page.first_line == 1:
            return " Nothing was stored."
        done = self.result.stored + self.result.existing
        return f" Jobs stored so far: {done:,}. A repeated restore skips them."


def _is_same_rule(one: Rule, other: Rule) -> bool:
    names = ("created_at", "dependencies", "enabled", "queue", "payload_json")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _lines(source: Iterable[bytes]) -> Iterable[bytes]:
    """The lines; one that is longer than any line of a dump is cut where it is too long."""
    if isinstance(source, io.IOBase):
        return iter(partial(source.readline, LONGEST_LINE + 1), b"")
    return source


def _understood(text: bytes, number: int, last: Part | None) -> Part | None:
    """What a line says; None: it is the torn end of the file. `last` is the line before."""
    if len(text) > LONGEST_LINE:
        raise InvalidInput(f"is longer than {LONGEST_LINE:,} bytes, so it is no line of a dump.")
    if number == 1:
        dump.check_header(text)
    if not text.endswith(b"\n"):
        return None
    if type(last) is DumpCounts:
        raise InvalidInput("something follows the end of the dump.")
    part = dump.decode(text)
    if isinstance(part, Header) and number > 1:
        raise InvalidInput("a second header; are these two dumps in one file?")
    return part
