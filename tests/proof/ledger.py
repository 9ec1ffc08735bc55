"""The log of a run, read once from beginning to end: what each job went through, and what the store
accepted or did that it may not."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from oncue.core.lifecycle import Verb
from tests.proof.entries import (
    Declined,
    Entry,
    Looked,
    Ranged,
    RangeWrote,
    Received,
    Reclaimed,
    Struck,
    Taken,
    Wrote,
)

RIVAL = "rival"
"""Whoever acts under this name judges leases by a clock of its own (see `rivals`)."""

ROUNDING = 0.0005  # seconds; the moments in the log are sums of floats

STARTING = frozenset({"start", "operation"})
LASTING = frozenset({*STARTING, "hold", "hand over"})
"""Writes after which the claim goes on; every other one ends it."""
FINAL = frozenset({Verb.COMPLETE.value, Verb.FAIL.value, Verb.DROP.value})
"""After any other ending the job is handed over once more."""


class StaleWrite(NamedTuple):
    """A write whose epoch or fence was no longer the current one, and which was accepted."""

    id: str
    epoch: int
    current: int
    what: str


class Takeover(NamedTuple):
    """A claim or a range that was taken from its holder, and how long after its end (seconds)."""

    id: str
    epoch: int
    holder: str
    after: float


@dataclass(slots=True)
class Claim:
    """One claim, and when its lease and its timeout end."""

    epoch: int
    attempt: int
    holder: str
    together: int
    lease_until: float | None
    overlong_at: float | None
    started: bool = False
    renewed: bool = False
    """Somebody other than the dispatcher renewed the lease."""
    receiver: str | None = None
    handed_over: bool = False
    ended: str | None = None

    @property
    def ends(self) -> float | None:
        return min(
            (at for at in (self.lease_until, self.overlong_at) if at is not None), default=None
        )


@dataclass(slots=True)
class Range:
    fence: int
    ids: tuple[str, ...]
    holder: str
    until: float
    settled: bool = False
    """Also while the answer to that is not known: another process may know it sooner."""


@dataclass(slots=True)
class Account:
    """One job."""

    received: int = 0
    allowed: int = 1
    """Deliveries: one, and one more whenever it was given back or taken from its holder, who may
    not know yet and deliver what he has in hand."""
    claims: dict[int, Claim] = field(default_factory=dict)
    newest: int = 0
    """The highest epoch that is known to have been given."""
    writes: dict[tuple[int, str], bool] = field(default_factory=dict)
    """Epoch and kind of every write, and whether it was accepted for certain."""
    delivered: bool | None = None
    """A dispatcher settled it as delivered: accepted (True), or without an answer (False)."""
    declined: bool = False
    taken: int = 0
    """Claims that were not given back: what the number of the attempt may be at most."""
    used: int = 0
    """Those of them that count against `max_attempts`."""
    strikes: int = 0
    unsettled: Counter[str] = field(default_factory=Counter)
    """By receiver: deliveries whose end was not acknowledged to it."""

    def in_hand(self, who: str) -> int:
        """Deliveries that this process had received, or given to a receiver, and was not told that
        they were settled. They may have been taken over since."""
        given = sum(
            claim.holder == who
            and claim.receiver not in (None, who)
            and not claim.handed_over
            and claim.ended in (None, "reclaimed")
            for claim in self.claims.values()
        )
        return self.unsettled[who] + given

    @property
    def completions(self) -> set[int]:
        """The epochs whose completion was acknowledged."""
        return {epoch for (epoch, what), sure in self.writes.items() if what == "complete" and sure}

    def may_have_ended(self, claim: Claim) -> bool:
        """Whether it was ended, or its holder said so and the answer is not known yet."""
        said = any(epoch == claim.epoch and what not in LASTING for epoch, what in self.writes)
        return said or claim.ended is not None

    def reported(self, what: str) -> bool:
        """Whether somebody wrote that, and was not refused."""
        return any(kind == what for _, kind in self.writes)


class Ledger:
    """`takeover_seconds` is how long after the end of a lease it may be taken over at the latest,
    `slack_seconds` how long before, because two processes did not read the clock at once."""

    def __init__(
        self,
        entries: Iterable[Entry],
        *,
        takeover_seconds: float | None = None,
        slack_seconds: float = 0.0,
    ) -> None:
        self.jobs: defaultdict[str, Account] = defaultdict(Account)
        self.received: list[Received] = []
        self.stale: list[StaleWrite] = []
        self.repeated: list[Received] = []
        self.overcounted: list[Received | Taken] = []
        self.premature: list[Takeover] = []
        self.late: list[Takeover] = []
        self.strikes = 0
        self.in_flight = 0
        """What the killed had in hand, and what was taken from those who were stopped, or slower
        than their lease, and not killed: no more can be repeated."""
        self._takeover_seconds = takeover_seconds
        self._slack_seconds = slack_seconds
        self._ranges: dict[str, list[Range]] = {}
        """The claims under the last fence of each."""
        self._settling: dict[tuple[str, int, str], Range] = {}
        self._settled: set[tuple[str, int, str]] = set()
        self._outdated: dict[tuple[object, ...], int] = {}
        self._looked: dict[str, float] = {}
        """By queue: the latest moment by which anybody has judged its ranges."""
        entries = list(entries)
        self._reclaims = {(one.id, one.epoch): one for one in entries if isinstance(one, Reclaimed)}
        self._killed = {
            entry.who for entry in entries if isinstance(entry, Struck) and entry.how == "kill"
        }
        for entry in entries:
            self._enter(entry)
        self._find_stale_completions()

    def _enter(self, entry: Entry) -> None:
        match entry:
            case Received():
                self._receive(entry)
            case Taken():
                self._take(entry)
            case Wrote(accepted=None):
                self._begin_write(entry)
            case Wrote():
                self._end_write(entry)
            case Reclaimed():
                self._reclaim(entry)
            case Looked():
                latest = self._looked.get(entry.queue, entry.since)
                self._looked[entry.queue] = max(latest, entry.since)
            case Ranged():
                self._range(entry)
            case RangeWrote():
                self._write_range(entry)
            case Declined():
                self.jobs[entry.id].declined = True
            case Struck(how="stop"):
                self.strikes += 1  # what is taken from it meanwhile counts when it is taken
            case Struck():
                self.strikes += 1
                self.in_flight += sum(job.in_hand(entry.who) for job in self.jobs.values())

    def _receive(self, entry: Received) -> None:
        self.received.append(entry)
        job = self.jobs[entry.id]
        job.received += 1
        if job.received > job.allowed:
            self.repeated.append(entry)
            job.allowed = job.received
        # A dispatcher's range raises no epoch; its attempt counts when it is settled, and then the
        # job has ended. A killed process may have claimed without having written it down.
        if entry.attempt > max(job.taken, 1) + self.strikes:
            self.overcounted.append(entry)
        job.unsettled[entry.receiver] += 1
        newest = job.claims.get(max(job.claims, default=0))
        if newest is not None and newest.attempt == entry.attempt:
            newest.receiver = entry.receiver

    def _take(self, entry: Taken) -> None:
        job = self.jobs[entry.id]
        job.taken += 1
        job.used += 1
        before = job.claims.get(job.newest)
        if before is not None and (late := self._reclaims.get((entry.id, before.epoch))):
            self._reclaim(late)  # it is written down after the reclaim, and perhaps after this
        if before is not None and not job.may_have_ended(before):
            self._judge(before, entry.id, entry.since, entry.holder)
        job.newest = max(job.newest, entry.epoch)
        overlong = None if entry.timeout_seconds is None else entry.since + entry.timeout_seconds
        job.claims[entry.epoch] = Claim(
            entry.epoch,
            entry.attempt,
            entry.holder,
            entry.together,
            entry.since + entry.lease_seconds,
            overlong,
        )

    def _begin_write(self, entry: Wrote) -> None:
        job = self.jobs[entry.id]
        key = (entry.epoch, entry.what)
        if job.newest > entry.epoch and not job.writes.get(key):
            self._outdated[entry.id, entry.epoch, entry.what] = job.newest
        if entry.what not in LASTING | FINAL and key not in job.writes:
            job.allowed += 1
        job.writes.setdefault(key, False)
        claim = job.claims.get(entry.epoch)
        if claim is not None and entry.what in STARTING:
            claim.started = True  # perhaps; what is refused is no longer the newest claim

    def _end_write(self, entry: Wrote) -> None:
        job = self.jobs[entry.id]
        key = (entry.epoch, entry.what)
        current = self._outdated.pop((entry.id, entry.epoch, entry.what), None)
        if not entry.accepted:
            if job.writes.get(key) is False:
                del job.writes[key]
            return
        if current is not None and entry.what != "complete":
            self.stale.append(StaleWrite(entry.id, entry.epoch, current, entry.what))
        first = not job.writes.get(key)
        job.writes[key] = True
        claim = job.claims.get(entry.epoch)
        if claim is None:
            return
        if entry.what == "hand over":
            claim.handed_over = True
            if not claim.renewed:
                claim.lease_until = None
        elif entry.lease_seconds is not None:
            claim.lease_until = entry.since + entry.lease_seconds
            claim.renewed = claim.renewed or entry.what == "start"
        if entry.what == "operation":
            job.strikes = 0
        if entry.what not in LASTING:
            claim.ended = entry.what
            job.unsettled[entry.writer] = max(0, job.unsettled[entry.writer] - 1)
            if first and entry.what not in FINAL | {Verb.RETRY}:
                job.taken -= 1
                job.used -= 1

    def _reclaim(self, entry: Reclaimed) -> None:
        job = self.jobs[entry.id]
        claim = job.claims.get(entry.epoch)
        job.newest = max(job.newest, entry.epoch + 1)
        if claim is None or claim.ended is not None:
            return
        job.allowed += 1
        self._judge(claim, entry.id, entry.at, entry.holder)
        claim.ended = "reclaimed"
        if claim.receiver is not None or not claim.handed_over:
            self.in_flight += (claim.receiver or claim.holder) not in self._killed
        if claim.started:
            job.strikes += 1
        elif claim.together > 1 and not claim.handed_over:
            job.used -= 1  # its allowance is kept, though the number of the attempt grows

    def _range(self, entry: Ranged) -> None:
        held = self._ranges.get(entry.range, [])
        if held and held[0].fence > entry.fence:
            return  # its holder was stopped before it wrote this down, and has lost it since
        until = entry.since + entry.lease_seconds
        if held and held[0].fence == entry.fence:  # the holder goes on, with one more in flight
            held = [
                one for one in held if not one.settled or self._key(entry, one) in self._settling
            ]
        else:
            for before in held:
                self._take_over(before, entry)
            held = []
        done = [job_id for job_id in entry.ids if self.jobs[job_id].delivered]
        self.repeated += [Received(job_id, 0, 0, entry.holder) for job_id in done]
        self._ranges[entry.range] = [*held, Range(entry.fence, entry.ids, entry.holder, until)]
        self._extend(entry.range, until)

    def _take_over(self, before: Range, entry: Ranged) -> None:
        lapsed = not before.settled and self._judge_range(before, entry)
        # Or it was said to be settled, and perhaps it was not.
        if lapsed or self._key(entry, before) in self._settling:
            self._allow_again(before.ids)
            self.in_flight += len(before.ids) if before.holder not in self._killed else 0

    def _extend(self, range: str, until: float) -> None:
        for one in self._ranges[range]:
            one.until = max(one.until, until)

    @staticmethod
    def _key(entry: Ranged | RangeWrote, held: Range) -> tuple[str, int, str]:
        return entry.range, held.fence, held.ids[0]

    def _write_range(self, entry: RangeWrote) -> None:
        claims = self._ranges.get(entry.range, [])
        newest = claims[-1].fence if claims else 0
        if entry.what == "forget":
            for one in [one for one in claims if one.fence == entry.fence and not one.settled]:
                one.settled = True
                self._allow_again(one.ids)
            return
        key = (entry.range, entry.fence, entry.what, entry.batch)
        if entry.accepted is None and newest != entry.fence:
            self._outdated[key] = newest
            return
        newer = self._outdated.pop(key, None)
        if newer is not None:
            if entry.accepted:
                self.stale.append(StaleWrite(entry.range, entry.fence, newer, entry.what))
            return
        if entry.what == "extend":
            if entry.accepted and newest == entry.fence:
                self._extend(entry.range, entry.until)
            return
        of_fence = [one for one in claims if one.fence == entry.fence]
        held = next((one for one in of_fence if entry.batch in (None, one.ids[0])), None)
        if entry.accepted:
            self._end_settling(entry)
        elif held is not None and entry.accepted is None:
            self._begin_settling(entry, held)
        elif held is not None and self._key(entry, held) not in self._settled:
            held.settled = False

    def _begin_settling(self, entry: RangeWrote, held: Range) -> None:
        held.settled = True
        self._settling[self._key(entry, held)] = held
        for job_id in entry.delivered:
            job = self.jobs[job_id]
            job.delivered = bool(job.delivered)

    def _end_settling(self, entry: RangeWrote) -> None:
        begun = [key for key in self._settling if key[:2] == (entry.range, entry.fence)]
        key = next((key for key in begun if entry.batch in (None, key[2])), None)
        if key is None:
            return
        held = self._settling.pop(key)
        self._settled.add(key)
        for job_id in entry.delivered:
            self.jobs[job_id].delivered = True
        self._allow_again({*held.ids} - {*entry.delivered} - {*entry.refused})
        for job_id in held.ids:
            unsettled = self.jobs[job_id].unsettled
            unsettled[held.holder] = max(0, unsettled[held.holder] - 1)

    def _allow_again(self, job_ids: Iterable[str]) -> None:
        for job_id in job_ids:
            self.jobs[job_id].allowed += 1

    def _judge(self, claim: Claim, job_id: str, at: float, by: str) -> None:
        if by == RIVAL:
            return
        after = float("-inf") if claim.ends is None else at - claim.ends
        self._note(Takeover(job_id, claim.epoch, claim.holder, after))

    def _judge_range(self, before: Range, entry: Ranged) -> bool:
        """Whether the range that stood before had ended; the same name takes over at once. Another
        process that judged leases by a later moment may have closed it while this one, whose call
        took longer, took what had become free."""
        if RIVAL in (entry.holder, before.holder) or before.holder == entry.holder:
            return True
        queue = entry.range.rpartition("#")[0]
        after = max(entry.since, self._looked.get(queue, entry.since)) - before.until
        self._note(Takeover(entry.range, before.fence, before.holder, after))
        return after >= -self._slack_seconds - ROUNDING

    def _note(self, takeover: Takeover) -> None:
        if takeover.after < -self._slack_seconds - ROUNDING:
            self.premature.append(takeover)
        longest = self._takeover_seconds
        if longest is not None and takeover.after > longest + ROUNDING:
            self.late.append(takeover)

    def _find_stale_completions(self) -> None:
        """No claim follows a completion; so one that was accepted under an older epoch is stale,
        whichever of the two came first."""
        for job_id, job in self.jobs.items():
            for epoch in job.completions:
                if epoch < job.newest:
                    self.stale.append(StaleWrite(job_id, epoch, job.newest, "complete"))
