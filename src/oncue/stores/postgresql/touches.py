"""Signs of life of workers' claims in PostgreSQL, and whether a claim is still to be worked on.

They are frequent and change little: payloads are neither read nor written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from oncue.core.fencing import GONE, Refused
from oncue.core.lease import Touch, Touched
from oncue.core.moment import Moment
from oncue.core.queue import Queue, default_queue
from oncue.stores.postgresql import records
from oncue.stores.postgresql.database import repeatable
from oncue.stores.postgresql.readying import PgReadying
from oncue.stores.postgresql.records import FiledRow
from oncue.stores.postgresql.settings import queue_row, rows_of
from oncue.stores.postgresql.tx import PgTx


class PgTouches(PgReadying):
    """Implements `touch` and `interruptions` of `oncue.ports.claims.ClaimStore`."""

    def touch(self, touches: Sequence[Touch], now: Moment) -> list[Touched | Refused]:
        """Usually a look and one statement for all. Jobs that are refused, which is recorded, or
        that somebody has changed since the look are locked first."""
        if not touches:
            return []
        answers = dict(enumerate(self.db.once(partial(self._touch_as_seen, touches, now))))
        rest = [at for at, answer in answers.items() if answer is None]
        if rest:
            again = self._touch_locked([touches[at] for at in rest], now)
            answers |= dict(zip(rest, again, strict=True))
        return [answer for answer in answers.values() if answer is not None]

    def _touch_as_seen(
        self, touches: Sequence[Touch], now: Moment, tx: PgTx
    ) -> list[Touched | Refused | None]:
        """None: the job has to be locked for the answer."""
        ids = {"ids": records.possible({one.id for one in touches})}
        rows, queues = tx.together(("claims", "seen", ids), ("claims", "queues_of", ids))
        found = {row[0]: records.read_stored(row[:-1]) for row in rows}
        answers = _touched(touches, found, {row[0]: queue_row(*row).queue for row in queues}, now)
        answered = list(zip(touches, answers, strict=True))
        recorded = {touch.id for touch, answer in answered if _is_recorded(touch, answer)}
        touched = {touch.id for touch, answer in answered if isinstance(answer, Touched)}
        versions = {row[0]: row[-1] for row in rows if row[0] in touched - recorded}
        stored = _store_touched(tx, found, versions) if versions else set()
        unsure = (touched | recorded) - stored
        return [None if touch.id in unsure else answer for touch, answer in answered]

    @repeatable
    def _touch_locked(
        self, tx: PgTx, touches: Sequence[Touch], now: Moment
    ) -> list[Touched | Refused]:
        found = records.lock(tx, (one.id for one in touches))
        answers = _touched(touches, found, self._queues_of(tx, found.values()), now)
        records.save(tx, found.values())
        return answers

    def _queues_of(self, tx: PgTx, found: Iterable[FiledRow]) -> dict[str, Queue]:
        """The queues of these jobs, as they are in the store."""
        names = sorted({one.record.queue for one in found})
        rows = rows_of(tx, names) if names else {}
        return {name: rows[name].queue if name in rows else default_queue(name) for name in names}

    def interruptions(self, claims: Sequence[tuple[str, int]]) -> Mapping[int, Refused]:
        if not claims:
            return {}
        found = self.db.once(lambda tx: records.find(tx, (job_id for job_id, _ in claims)))
        refused: dict[int, Refused] = {}
        for position, (job_id, epoch) in enumerate(claims):
            one = records.visible(found, job_id)
            why = GONE if one is None else one.record.interruption(epoch)
            if why is not None:
                refused[position] = why
        return refused


def _touched(
    touches: Sequence[Touch],
    found: Mapping[str, FiledRow],
    queues: Mapping[str, Queue],
    now: Moment,
) -> list[Touched | Refused]:
    """The answers to these signs of life of jobs that were found."""
    answers: list[Touched | Refused] = []
    for touch in touches:
        one = records.visible(found, touch.id)
        if one is None:
            answers.append(GONE)
        else:
            name = one.record.queue
            answers.append(one.record.touch(touch, queues.get(name) or default_queue(name), now))
    return answers


def _is_recorded(touch: Touch, answer: Touched | Refused) -> bool:
    """Whether a refusal leaves a trace in the job."""
    return touch.start and isinstance(answer, Refused) and answer is not GONE


def _store_touched(
    tx: PgTx, found: Mapping[str, FiledRow], versions: Mapping[str, str]
) -> set[str]:
    """Store what signs of life have made of jobs whose rows have these versions. Of which it was
    stored: others have changed the rest."""
    ids = sorted(versions)  # the order of locks
    jobs = [found[job_id].record for job_id in ids]
    params = {
        "ids": ids,
        "versions": [versions[job_id] for job_id in ids],
        "states": [one.state.value for one in jobs],
        "updated": [one.updated_at for one in jobs],
        "untils": [one.lease.until for one in jobs],
        "lengths": [one.lease.length_ms for one in jobs],
        "asked": [one.lease.asked for one in jobs],
        "messages": [one.message for one in jobs],
        "percents": [None if one.percent is None else float(one.percent) for one in jobs],
    }
    return {row[0] for row in tx.rows("claims", "touch", params)}
