"""Jobs that wait in a table of another system become jobs of oncue, while that system may run.

The order of effects: an item is taken (`OthersTable.take`: it is gone for the other system, and a
copy is aside), its job is stored, the copy is removed. A run that ends in between leaves copies,
and the next run makes jobs of them; ids of jobs are made of their items, so a job that was stored
is not stored again. Items that the other system may be working on just now are left to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple, Protocol

import msgspec

from oncue.aws.others_table import DEEPEST, LARGEST_BYTES, OthersTable, WireItem, depth_of, size_of
from oncue.core.errors import Conflict, IdTaken, InvalidInput, OncueError
from oncue.core.job import NewJob
from oncue.core.moment import Moment
from oncue.scheduler import Scheduler
from oncue.sinks import bounds_of
from oncue.usecases.jobs import insert_all

NAMED = 1000  # malformed items that a report names
_encode = msgspec.json.Encoder(order="deterministic").encode


class Adoptable(NamedTuple):
    """An item that can be a job."""

    item: WireItem
    job: NewJob
    due_at: Moment
    """As the item says; that of the job is not in the past."""


class OthersLayout(Protocol):
    """How another system keeps its jobs."""

    system: str
    keys: tuple[str, str]
    """Of the partition, and of the order in it."""

    def pages(self, table: OthersTable) -> Iterator[list[WireItem]]:
        """All its items, and copies that are aside."""

    def waits(self, item: WireItem) -> bool:
        """Whether it waits for its time. Others stay as they are."""

    def name_of(self, item: WireItem) -> str:
        """What people know it by."""

    def read(self, item: WireItem, arn: str, now: Moment) -> Adoptable:
        """The job that it becomes; refuses what cannot be one."""

    def may_have_read(self, due_at: Moment, now: Moment) -> bool:
        """Whether the other system, if it runs, may be about to act on an item that is due then."""

    def prepare(self, cue: Scheduler, queues: set[str], *, dry_run: bool) -> None:
        """Make these queues ready; refuses if one is used for something else."""


@dataclass(slots=True)
class AdoptReport:
    """What a run has done; or, of a dry run, what it would do."""

    seen: int = 0
    """Items that wait, copies included."""
    adopted: int = 0
    """Jobs stored."""
    finished: int = 0
    """Of these, the jobs of copies that a former run had left."""
    lost: int = 0
    """Items that the other system took or changed meanwhile."""
    left: int = 0
    """Items that were left to the other system: it may be working on them."""
    malformed: int = 0
    queues: dict[str, int] = field(default_factory=dict)
    """Jobs by queue."""
    problems: list[tuple[str, str]] = field(default_factory=list)
    """The first of the malformed items, by name: what is wrong."""


Watch = Callable[[AdoptReport], None]


@dataclass
class Adoption:
    cue: Scheduler
    table: OthersTable
    layout: OthersLayout
    stopped: bool = False
    """The other system does not run: nothing is left to it."""

    def survey(self, watch: Watch = lambda report: None) -> AdoptReport:
        """Read everything; change nothing. Refused if the table is not one of the system, or a
        queue is used for something else."""
        arn, report = self.table.check_keys(self.layout.system), AdoptReport()
        for page in self.layout.pages(self.table):
            copies, items = self._sorted(page, arn, report)
            report.finished += len(copies)
            self._count([*copies, *items], report)
            watch(report)
        self.layout.prepare(self.cue, set(report.queues), dry_run=True)
        return report

    def run(self, queues: set[str], watch: Watch = lambda report: None) -> AdoptReport:
        """Take over what waits, after `survey`, which found these queues."""
        self.layout.prepare(self.cue, queues, dry_run=False)
        ready = set(queues)
        arn, report = self.table.check_keys(self.layout.system), AdoptReport()
        for page in self.layout.pages(self.table):
            copies, items = self._sorted(page, arn, report)
            found = {one.job.queue for one in (*copies, *items)}
            if new := found - ready:  # they came meanwhile
                self.layout.prepare(self.cue, new, dry_run=False)
                ready |= new
            taken = self.table.take([one.item for one in items]) if items else []
            won = [one for one, is_ours in zip(items, taken, strict=True) if is_ours]
            report.lost += len(items) - len(won)
            report.finished += len(copies)
            self._store([*copies, *won])
            self._count([*copies, *won], report)
            watch(report)
        return report

    def _sorted(
        self, page: Sequence[WireItem], arn: str, report: AdoptReport
    ) -> tuple[list[Adoptable], list[Adoptable]]:
        """The copies and the items of a page that become jobs."""
        copies: list[Adoptable] = []
        items: list[Adoptable] = []
        now = self.cue.clock.now()
        for found in page:
            original = self.table.original_of(found)
            item = found if original is None else original
            if not self.layout.waits(item):
                continue
            report.seen += 1
            try:
                one = self.layout.read(item, arn, now)
                _check_movable(item)
                _check_sendable(self.cue, one.job)
            except InvalidInput as problem:
                self._note_malformed(item, problem, report)
                continue
            if original is not None:
                copies.append(one)
            elif self.layout.may_have_read(one.due_at, now) and not self.stopped:
                report.left += 1
            else:
                items.append(one)
        return copies, items

    def _note_malformed(self, item: WireItem, problem: InvalidInput, report: AdoptReport) -> None:
        report.malformed += 1
        if len(report.problems) < NAMED:
            report.problems.append((self.layout.name_of(item), str(problem)))

    def _store(self, taken: Sequence[Adoptable]) -> None:
        """Store their jobs, and then remove the copies."""
        if not taken:
            return
        jobs = [one.job for one in taken]
        for one, met in zip(taken, insert_all(self.cue, jobs), strict=True):
            if isinstance(met, IdTaken):  # a job that has other contents
                met = insert_all(self.cue, [one.job._replace(id=_other_id(one.job))])[0]
            if isinstance(met, OncueError):
                raise Conflict(
                    f"{self.layout.name_of(one.item)} was taken from table {self.table.name} and "
                    f"cannot be stored: {met} It is kept in that table. Run the command again once "
                    "this is put right."
                )
        self.table.forget([one.item for one in taken])

    def _count(self, adopted: Sequence[Adoptable], report: AdoptReport) -> None:
        report.adopted += len(adopted)
        for one in adopted:
            report.queues[one.job.queue] = report.queues.get(one.job.queue, 0) + 1


def id_of(prefix: str, arn: str, item: WireItem) -> str:
    """An id that only this very item of this table has. Another item under the same key, as when a
    job is tried again later, has another one."""
    digest = blake2b(arn.encode() + b"\n" + _encode(item), digest_size=16)
    return f"{prefix}-{digest.hexdigest()}"


def _other_id(job: NewJob) -> str:
    assert job.digest is not None, "chosen ids come with one"
    return f"{job.id[:40]}-{job.digest.hex()}"


def _check_sendable(cue: Scheduler, job: NewJob) -> None:
    """Before it is taken: a job that its sink would never take is refused."""
    sink = cue.policies(job.queue).sink
    bounds = None if sink is None else bounds_of(sink)
    problem = None if bounds is None else bounds.problem(job.payload)
    if problem is not None:
        raise problem


def _check_movable(item: WireItem) -> None:
    """Before it is taken: its copy must be one that the service keeps."""
    if size_of(item) > LARGEST_BYTES:
        raise InvalidInput(f"it has more than {LARGEST_BYTES:,} bytes.")
    if depth_of({"M": item}) > DEEPEST:
        raise InvalidInput(f"its lists and maps are nested more than {DEEPEST} deep.")
