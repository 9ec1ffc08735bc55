"""How workers' claims end in PostgreSQL: settled by the worker, or reclaimed; and what expires."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from oncue.core.cursor import Cursor, cursor_at, place_at
from oncue.core.fencing import GONE, Refused, Settlement, state_after
from oncue.core.ids import REMEMBERED_MS
from oncue.core.job import Lapse
from oncue.core.lifecycle import LIVE, State, Verb
from oncue.core.missed import JUMP_MS, Judge, Look, Missed, is_astray, moved_lease
from oncue.core.moment import Moment
from oncue.core.putoff import latest_return
from oncue.core.queue import Queue
from oncue.core.rate import Bucket, begun_again
from oncue.core.retry import Verdict
from oncue.ports.claims import ClaimFilter, ClaimPage, Leases, Settled
from oncue.stores.postgresql import records, shards
from oncue.stores.postgresql.claims import PgClaims
from oncue.stores.postgresql.database import repeatable, writing
from oncue.stores.postgresql.records import FiledRow, read_stored
from oncue.stores.postgresql.tx import Asked, PgTx
from oncue.stores.relational.queue_settings import read_queue

MOVED_AT_ONCE = 10_000  # claims: less than half a second
_ID = attrgetter("id")


def known_answer(
    one: FiledRow | None, settlement: Settlement, now: Moment
) -> Refused | State | None:
    """The answer to a settlement whose job is gone, or that was applied before. None: the claim is
    to be ended."""
    if one is None or (one.record.hidden and (one.forget_at or 0) <= now):
        return GONE
    outcome = one.record.outcome_of(settlement)
    if outcome is not None:
        return state_after(outcome)
    return GONE if one.record.hidden else None


class PgEndings(PgClaims):
    """Implements the ends of claims of `oncue.ports.claims.ClaimStore`."""

    @repeatable
    def settle(self, tx: PgTx, settlements: Sequence[Settlement], now: Moment) -> Settled:
        settlements = list(settlements)  # `Completions` makes them anew at each iteration
        answers: dict[int, Refused | State] = {}
        completed = self._complete(tx, settlements, now)
        rest = {at: one for at, one in enumerate(settlements) if one.id not in completed}
        found = records.lock(tx, (one.id for one in rest.values())) if rest else {}
        queues = self._queues_of(tx, found.values())
        for at, settlement in rest.items():
            one = found.get(settlement.id)
            known = known_answer(one, settlement, now)
            if known is not None:
                answers[at] = known
            elif one is not None:
                queue = queues[one.record.queue]
                answers[at], found[settlement.id] = self.settled(one, settlement, queue, now)
        self._save_ended(tx, found, queues)
        refused = {at: one for at, one in answers.items() if isinstance(one, Refused)}
        states = {at: one for at, one in answers.items() if isinstance(one, State)}
        return Settled(refused, {at: states[at] for at in states if settlements[at].tells_state})

    def _complete(self, tx: PgTx, settlements: Sequence[Settlement], now: Moment) -> set[str]:
        """Settle completions that need no decision, by one statement. The ids of these jobs; one
        of which several settlements tell is not among them."""
        times = Counter(one.id for one in settlements)
        plain = [
            one
            for one in sorted(settlements, key=_ID)
            if one.verb is Verb.COMPLETE and one.updated_at is None and times[one.id] == 1
        ]
        if not plain:
            return set()
        done = tx.rows(*asked_completion(plain, now))
        hidden = [job_id for job_id, _, is_hidden in done if is_hidden]
        if hidden:
            tx.run("jobs", "remove_operations", {"ids": hidden})
        for queue in {queue for _, queue, _ in done}:
            self._announce_room(tx, queue)
        return {job_id for job_id, *_ in done}

    def _announce_room(self, tx: PgTx, queue: str) -> None:
        """At its concurrency, a queue waits for one of its jobs to be no longer under way."""
        if self.known_queue(queue).concurrency is not None:
            tx.tell(queue, 0)

    def settled(
        self, one: FiledRow, settlement: Settlement, queue: Queue, now: Moment
    ) -> tuple[Refused | State, FiledRow]:
        """A job whose claim is to be ended: in which state it is then, or why it is refused; and
        what is to be saved."""
        ending = one.record.settle(settlement, queue, now)
        if isinstance(ending, Refused):
            return ending, one
        state = one.record.state
        if ending is not None and ending.is_final and not queue.keeps_history:
            one = self._gone(one, queue, now)
        return state, one

    def _gone(self, one: FiledRow, queue: Queue, now: Moment) -> FiledRow:
        """A job that has ended and is not kept. How it ended is remembered for the length of a
        lease: the write that ended it may be repeated."""
        return one.hide(self._remembered_until(one, now + round(queue.lease_seconds * 1000)))

    @staticmethod
    def _remembered_until(one: FiledRow, least: Moment) -> Moment:
        """An id that was chosen by a client is remembered for a day."""
        if one.record.digest is None:
            return least
        return max(least, (one.record.finished_at or 0) + REMEMBERED_MS)

    def _save_ended(
        self, tx: PgTx, found: Mapping[str, FiledRow], queues: Mapping[str, Queue]
    ) -> None:
        """Save jobs of which some have ended, or wait again."""
        records.save(tx, found.values())
        hidden = [one.record.id for one in found.values() if one.record.hidden]
        if hidden:
            tx.run("jobs", "remove_operations", {"ids": hidden})
        for one in found.values():
            record = one.record
            if record.state is State.SCHEDULED:
                self._announce_waiting(tx, record)
            if record.state not in LIVE and queues[record.queue].concurrency is not None:
                tx.tell(record.queue, 0)

    @writing
    def reclaim(
        self, tx: PgTx, verdicts: Sequence[tuple[Lapse, Verdict]], now: Moment
    ) -> Mapping[int, Refused]:
        # A job that somebody else changes just now is left to the next time: what is locked may be
        # a completion in a transaction of others, whose end would have to be waited for.
        found = records.lock(tx, (lapse.id for lapse, _ in verdicts), free=True)
        queues = self._queues_of(tx, found.values())
        refused: dict[int, Refused] = {}
        for at, (lapse, verdict) in enumerate(verdicts):
            one = records.visible(found, lapse.id)
            if one is None:
                refused[at] = GONE if lapse.id in found else Refused("moved on", lapse.state)
                continue
            ending = one.record.reclaim(lapse, verdict, now)
            if isinstance(ending, Refused):
                refused[at] = ending
                continue
            queue = queues[one.record.queue]
            if ending.is_final and not queue.keeps_history:
                found[lapse.id] = self._gone(one, queue, now)
        self._save_ended(tx, found, queues)
        return refused

    @writing
    def expire(self, tx: PgTx, now: Moment, limit: int) -> int:
        params = {"now": now, "limit": limit}
        ids = [row[0] for row in tx.rows("claims", "expired", params)]
        return self._expire(tx, ids, now) if ids else 0

    def live_claims(self, wanted: ClaimFilter, after: Cursor | None, limit: int) -> ClaimPage:
        if wanted.job_id is not None:
            return self._live_claim(wanted.job_id, wanted)
        since, until = wanted.heard_outside or (None, None)
        params: dict[str, Any] = {"since": since, "until": until, "limit": limit}
        if wanted.lapsed_by is not None:
            place = (-1, "") if after is None else place_at(after, (int, str))
            statement = "lapsed_claims"
            params |= {"at": place[0], "id": place[1], "lapsed_by": wanted.lapsed_by}
        else:
            place = ("", -1, "") if after is None else place_at(after, (str, int, str))
            statement = "live_claims"
            params |= dict(zip(("queue", "due_at", "id"), place, strict=True))
        found = self.db.once(lambda tx: tx.rows("claims", statement, params))
        lapses = [read_stored(row).record for row in found]
        end: Cursor | None = None
        if len(found) == limit:
            last = lapses[-1]
            by_lapse = (last.lapses_at or 0, last.id)
            by_queue = (last.queue, last.due_at, last.id)
            end = cursor_at(by_queue if wanted.lapsed_by is None else by_lapse)
        return ClaimPage([one.as_lapse() for one in lapses], end)

    def _live_claim(self, job_id: str, wanted: ClaimFilter) -> ClaimPage:
        found = self.db.once(lambda tx: records.find(tx, [job_id]))
        one = records.visible(found, job_id)
        if one is None or not wanted.fits(one.record):
            return ClaimPage([])
        return ClaimPage([one.record.as_lapse()])

    def live_count(self) -> int | None:
        count: int = self.db.once(lambda tx: tx.run("claims", "live_count").get)
        return count

    def leases(self) -> Leases:
        lapse, expiry, ranged, look = self.db.once(lambda tx: tx.rows("claims", "leases")[0])
        next_lapse = min((at for at in (lapse, expiry) if at is not None), default=None)
        return Leases(ranged or lapse is not None, _read_look(look), next_lapse)

    def has_leases_astray(self, now: Moment) -> bool:
        with self.db.reading() as tx:
            if any(is_astray(o.lease_until, o.lease_ms, now) for o in shards.open_ranges(tx)):
                return True
            astray = tx.run("claims", "are_leases_astray", {"now": now, "jump": JUMP_MS}).get
            return bool(astray)

    @writing
    def judge_leases(self, tx: PgTx, judge: Judge) -> Missed | None:
        judged = judge(_read_look(tx.run("claims", "last_look").get))
        if judged is None:
            return None
        look, missed = judged
        tx.run("claims", "put_last_look", {"value": json.dumps(look).encode()})
        if missed is not None:
            self._move_leases(tx, missed, look.wall)
        return missed

    def _move_leases(self, tx: PgTx, missed: Missed, now: Moment) -> None:
        self._move_claims(tx, missed.claims_ms, now)
        for held in shards.open_ranges(tx, lock=True):
            until = moved_lease(held.lease_until, held.lease_ms, missed.ranges_ms, now)
            if until < held.lease_until:
                tx.tell(held.queue, until)
            place = {"queue": held.queue, "shard": held.shard}
            tx.run("ranges", "move", {**place, "lease_until": until})
        for name, turns, at in tx.rows("claims", "lock_buckets", {"now": now}):
            self._keep_bucket(tx, name, begun_again(Bucket(turns, at), now))
        self._shorten_returns(tx, now)

    def _move_claims(self, tx: PgTx, missed_ms: int, now: Moment) -> None:
        """By the server alone: there may be as many claims as jobs. A statement for each page, so
        that none takes long."""
        place: tuple[str, Moment, str] | None = ("", -1, "")
        while place is not None:
            params = dict(zip(("queue", "due_at", "id"), place, strict=True))
            params |= {"missed": missed_ms, "now": now, "jump": JUMP_MS, "limit": MOVED_AT_ONCE}
            found = tx.rows("claims", "move_claims", params)
            place = found[0][:3] if found and found[0][3] == MOVED_AT_ONCE else None

    def _shorten_returns(self, tx: PgTx, now: Moment) -> None:
        queues = [read_queue(*row) for row in tx.rows("queues", "all")]
        params = {
            "queues": [one.name for one in queues],
            "latest": [latest_return(one.retry, now) for one in queues],
            "jump": JUMP_MS,
        }
        for name, until in tx.rows("claims", "shorten_returns", params):
            tx.tell(name, until)


def asked_completion(plain: Sequence[Settlement], now: Moment) -> Asked:
    """Completions that need no decision. Answers with the jobs that were completed."""
    params = {
        "ids": [one.id for one in plain],
        "epochs": [one.epoch for one in plain],
        "results": [one.result for one in plain],
        "now": now,
        "remembered_ms": REMEMBERED_MS,
    }
    return "claims", "complete", params


def _read_look(value: bytes | None) -> Look | None:
    return None if value is None else Look(*json.loads(value))
