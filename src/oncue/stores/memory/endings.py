"""How workers' claims end in memory: settled by the worker, or reclaimed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oncue.core.fencing import OUTCOMES, Write, objection, reason_of, settled_facts, words, write_of
from oncue.core.job import Lapse, Position
from oncue.core.lease import NO_LEASE
from oncue.core.lifecycle import FINAL, TRANSITIONS, Verb
from oncue.core.missed import Judge, Missed, is_astray, moved_lease
from oncue.core.moment import Moment
from oncue.core.putoff import moved_return
from oncue.core.rate import begun_again
from oncue.core.retry import Verdict, lapse_facts
from oncue.ports.claims import Leases, Refused, Settlement, SilentPage
from oncue.stores.memory.claims import MemoryClaims, milliseconds
from oncue.stores.memory.record import Ending, Record


class MemoryEndings(MemoryClaims):
    """Implements the ends of claims of `oncue.ports.claims.ClaimStore`."""

    def settle(self, settlements: Sequence[Settlement], now: Moment) -> Mapping[int, Refused]:
        refused: dict[int, Refused] = {}
        with self._writing():
            for position, settlement in enumerate(settlements):
                refusal = self._settle(settlement, now)
                if refusal is not None:
                    refused[position] = refusal
        return refused

    def _settle(self, settlement: Settlement, now: Moment) -> Refused | None:
        verb = settlement.verb
        write = write_of(verb, settlement.result, settlement.error)
        if self._has_ended_by(settlement, write, now):
            return None
        kind = "fail" if verb is Verb.RETRY else str(verb)
        record = self._held(settlement.id, settlement.epoch, kind, now)
        if isinstance(record, Refused):
            return record
        why = objection(
            verb,
            record.updated_at,
            settlement.updated_at,
            cancel_unseen=record.cancel_requested and not settlement.cancel_seen,
        )
        if why is not None:
            return Refused(why, record.state)
        diagnostic = None
        if verb not in (Verb.COMPLETE, Verb.RELEASE):
            diagnostic = record.note(
                now,
                settlement.code,
                settlement.detail,
                record.attempt,
                record.epoch,
                **settled_facts(verb, record.worker, settlement.error),
            )
        outcome = OUTCOMES[verb]
        ending = Ending(reason_of(outcome), write, record.attempt, diagnostic)
        record.endings[record.epoch] = ending
        record.end_attempt(outcome, now)
        self._apply(record, settlement, now)
        if not settlement.keep:
            self._remember(settlement, write, now)
        return None

    def _apply(self, record: Record, settlement: Settlement, now: Moment) -> None:
        verb = settlement.verb
        if verb is Verb.RELEASE:
            record.attempt -= 1
            if settlement.put_off is not None:
                record.put_off(settlement.put_off, settlement.error, now)
            self._wait_again(record, verb, now)
            return
        if verb is Verb.COMPLETE:
            record.result, record.error = settlement.result, None
        else:
            record.error = settlement.error
        record.ahead = False
        if verb is not Verb.RETRY:
            self._end(record, verb, now, keep=settlement.keep)
            return
        if settlement.due_at is not None:
            record.due_at = settlement.due_at
        self._wait_again(record, verb, now)

    def _wait_again(self, record: Record, verb: Verb, now: Moment) -> None:
        record.state = TRANSITIONS[record.state, verb]
        record.updated_at = now
        record.lease, record.worker, record.overlong_at = NO_LEASE, None, None
        # Whoever decided this knew of the request; a waiting job is cancelled at once instead.
        record.cancel_requested = False
        record.trim_attempts()
        self._refile(record)

    def _has_ended_by(self, settlement: Settlement, write: Write, now: Moment) -> bool:
        record = self._visible(settlement.id)
        if record is None:
            word = words([settlement.id], settlement.epoch, write)
            return self._settled.get(word, 0) > now
        ending = record.endings.get(settlement.epoch)
        return ending is not None and ending.write == write

    def _remember(self, settlement: Settlement, write: Write, now: Moment) -> None:
        """The job is gone, or will be: its claim was settled by this write."""
        while self._settled and next(iter(self._settled.values())) <= now:
            del self._settled[next(iter(self._settled))]
        word = words([settlement.id], settlement.epoch, write)
        self._settled[word] = now + milliseconds(settlement.lease_seconds)

    def lapses(self, until: Moment, limit: int, after: Position | None = None) -> list[Lapse]:
        with self._lock:
            lapsed = [
                (at, record.id, record)
                for record in self._taken.values()
                if (at := record.lapses_at) is not None
                and at <= until
                and (after is None or Position(at, record.id) > after)
            ]
            return [record.as_lapse() for _, _, record in sorted(lapsed)[:limit]]

    def silent(
        self, before: Moment, now: Moment, limit: int, after: object | None = None
    ) -> SilentPage:
        with self._lock:
            found = sorted(
                record.id
                for record in self._taken.values()
                if (record.updated_at < before or record.updated_at > now)
                and (not isinstance(after, str) or record.id > after)
            )[:limit]
            lapses = [self._taken[job_id].as_lapse() for job_id in found]
        return SilentPage(lapses, found[-1] if len(found) == limit else None)

    def claim_on(self, job_id: str) -> Lapse | None:
        with self._lock:
            record = self._taken.get(job_id)
            return None if record is None else record.as_lapse()

    def live_count(self) -> int | None:
        with self._lock:
            return len(self._taken)

    def reclaim(
        self, verdicts: Sequence[tuple[Lapse, Verdict, bool]], now: Moment
    ) -> Mapping[int, Refused]:
        refused: dict[int, Refused] = {}
        with self._writing():
            for position, (lapse, verdict, keep) in enumerate(verdicts):
                refusal = self._reclaim(lapse, verdict, keep, now)
                if refusal is not None:
                    refused[position] = refusal
        return refused

    def _reclaim(self, lapse: Lapse, verdict: Verdict, keep: bool, now: Moment) -> Refused | None:
        record = self._visible(lapse.id)
        if record is None:
            return Refused("unknown", None)
        if not lapse.is_still_so(
            record.state,
            record.epoch,
            record.updated_at,
            cancel_requested=record.cancel_requested,
        ):
            return Refused("moved on", record.shown_state)
        facts = lapse_facts(lapse, verdict, now)
        diagnostic = record.note(
            now, verdict.code, verdict.detail, record.attempt, record.epoch, **facts
        )
        record.endings[record.epoch] = Ending("reclaimed", None, record.attempt, diagnostic)
        record.end_attempt("reclaimed", now)
        record.epoch += 1
        record.worker = None
        if TRANSITIONS[record.state, verdict.verb] in FINAL:
            record.error = verdict.detail
            self._end(record, verdict.verb, now, keep=keep)
        else:
            record.ahead = True
            record.strikes += verdict.strike
            record.attempt_base += not verdict.uses_attempt
            self._wait_again(record, verdict.verb, now)
        return None

    def expire(self, now: Moment, limit: int) -> int:
        with self._writing():
            expired = [record for record in self._expiring.values() if record.has_expired(now)]
            expired.sort(key=lambda record: (record.expires_at, record.id))
            for record in expired[:limit]:
                self._expire(record, now)
            return len(expired[:limit])

    def leases(self) -> Leases:
        with self._lock:
            claims = any(record.lapses_at is not None for record in self._taken.values())
            return Leases(claims or bool(self._ranges), self._last_look)

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
        for queue, held in self._ranges.items():
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

    def next_lapse(self) -> Moment | None:
        with self._lock:
            lapses = (record.lapses_at for record in self._taken.values())
            expiries = (record.expires_at for record in self._expiring.values())
            moments = [at for source in (lapses, expiries) for at in source if at is not None]
            return min(moments, default=None)

    def next_due(self, queues: Sequence[str]) -> Moment | None:
        with self._lock:
            return min((at for name in queues for at in self._next_dues(name)), default=None)
