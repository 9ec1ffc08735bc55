"""How workers' claims end in memory: settled by the worker, or reclaimed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oncue.core.cursor import Cursor, cursor_at, place_at
from oncue.core.fencing import (
    GONE,
    Ending,
    Refused,
    Settlement,
    possible_words,
    state_after,
    words,
)
from oncue.core.job import Lapse
from oncue.core.lifecycle import State
from oncue.core.missed import Judge, Missed, is_astray, moved_lease
from oncue.core.moment import Moment
from oncue.core.putoff import moved_return
from oncue.core.rate import begun_again
from oncue.core.record import Record
from oncue.core.retry import Verdict
from oncue.ports.claims import ClaimFilter, ClaimPage, Leases, Settled
from oncue.stores.memory.claims import MemoryClaims
from oncue.stores.memory.state import exceptions


class MemoryEndings(MemoryClaims):
    """Implements the ends of claims of `oncue.ports.claims.ClaimStore`."""

    def settle(self, settlements: Sequence[Settlement], now: Moment) -> Settled:
        with self._writing():
            answers = {at: self._settle(one, now) for at, one in enumerate(settlements)}
        refused = {at: answer for at, answer in answers.items() if isinstance(answer, Refused)}
        states = {at: answer for at, answer in answers.items() if isinstance(answer, State)}
        return Settled(refused, {at: states[at] for at in states if settlements[at].tells_state})

    def _settle(self, settlement: Settlement, now: Moment) -> Refused | State:
        """The refusal, or the state in which the job is left."""
        record = self._visible(settlement.id)
        if record is None:
            known = possible_words(settlement).items()
            ends = (end for word, end in known if self._settled.get(word, 0) > now)
            outcome = next(ends, None)
            return GONE if outcome is None else state_after(outcome)
        outcome = record.outcome_of(settlement)
        if outcome is not None:
            return state_after(outcome)
        queue = self._queue(record.queue)
        ending = record.settle(settlement, queue, now)
        if isinstance(ending, Refused):
            return ending
        if ending is not None:
            self._ended(record, ending, keep=queue.keeps_history)
            if not queue.keeps_history:
                word = words([settlement.id], settlement, ending.outcome).rstrip()
                self._settled[word] = now + round(queue.lease_seconds * 1000)
        return record.state

    def _ended(self, record: Record, ending: Ending, *, keep: bool) -> None:
        """A claim has ended."""
        self._refile(record)
        if ending.is_final and not keep:
            self._forget(record)

    def live_claims(self, wanted: ClaimFilter, after: Cursor | None, limit: int) -> ClaimPage:
        start = (-1, "") if after is None else place_at(after, (int, str))
        with self._lock:
            places = {
                (0 if wanted.lapsed_by is None else record.lapses_at or 0, record.id): record
                for record in self._taken.values()
                if wanted.fits(record)
            }
            found = [at for at in sorted(places) if at > start][:limit]
            lapses = [places[at].as_lapse() for at in found]
            return ClaimPage(lapses, cursor_at(found[-1]) if len(found) == limit else None)

    def live_count(self) -> int | None:
        with self._lock:
            return len(self._taken)

    def reclaim(
        self, verdicts: Sequence[tuple[Lapse, Verdict]], now: Moment
    ) -> Mapping[int, Refused]:
        with self._writing():
            return exceptions(self._reclaim(*one, now) for one in verdicts)

    def _reclaim(self, lapse: Lapse, verdict: Verdict, now: Moment) -> Refused | None:
        record = self._visible(lapse.id)
        if record is None:
            return GONE
        ending = record.reclaim(lapse, verdict, now)
        if isinstance(ending, Refused):
            return ending
        self._ended(record, ending, keep=self._queue(record.queue).keeps_history)
        return None

    def expire(self, now: Moment, limit: int) -> int:
        with self._writing():
            expired = [record for record in self._expiring.values() if record.has_lapsed(now)]
            expired.sort(key=lambda record: (record.lapses_at, record.id))
            for record in expired[:limit]:
                self._expire(record, now)
            return len(expired[:limit])

    def leases(self) -> Leases:
        with self._lock:
            lapses = [r.lapses_at for r in self._taken.values() if r.lapses_at is not None]
            running = bool(lapses or self._ranges)
            lapses += [r.lapses_at for r in self._expiring.values() if r.lapses_at is not None]
            return Leases(running, self._last_look, min(lapses, default=None))

    def has_leases_astray(self, now: Moment) -> bool:
        with self._lock:
            claims = any(r.lease.is_astray(r.updated_at, now) for r in self._taken.values())
            ranges = self._ranges.values()
            return claims or any(is_astray(r.lease_until, r.lease_ms, now) for r in ranges)

    def judge_leases(self, judge: Judge) -> Missed | None:
        with self._writing():
            judged = judge(self._last_look)
            if judged is None:
                return None
            self._last_look, missed = judged
            if missed is not None:
                self._move_leases(missed, self._last_look.wall)
            return missed

    def _move_leases(self, missed: Missed, now: Moment) -> None:
        for record in self._taken.values():
            if record.lapses_at is not None:
                record.move(missed.claims_ms, now)
        for (queue, _), held in self._ranges.items():
            until = moved_lease(held.lease_until, held.lease_ms, missed.ranges_ms, now)
            if until < held.lease_until:
                self._announce(queue, until)
            held.lease_until = until
        for name, bucket in self._buckets.items():
            self._buckets[name] = begun_again(bucket, now)
        for record in self._put_off.values():
            assert record.not_before is not None
            until = moved_return(record.not_before, self._queue(record.queue).retry, now)
            if until < record.not_before:
                record.not_before = until
                self._announce(record.queue, until)
