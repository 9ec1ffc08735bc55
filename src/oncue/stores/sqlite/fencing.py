"""Jobs as claims see them in SQLite: reading them, refusing late writes, ending claims."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from oncue.core.fencing import GONE, End, Ending, Held, Refused, late_write, refusal, write_behind
from oncue.core.job import DIAGNOSTICS_KEPT, Diagnostic
from oncue.core.lease import Lease
from oncue.core.moment import Moment, from_datetime
from oncue.stores.sqlite import rows, worker_ranges
from oncue.stores.sqlite.database import Database

SQL = rows.load("claims")


class HeldRow(Held):
    """A job as claims see it, and the number of its row."""

    n: int


_read_held = rows.reader(HeldRow)


def held_claims(tx: rows.Tx, ids: Sequence[str]) -> dict[str, HeldRow]:
    """The rows of those of these jobs that exist, by id, for writers. A range of a worker that
    covers one of them is split, so that the job has a claim of its own."""
    found = seen_claims(tx, ids)
    covered = [one.id for one in found.values() if one.covered]
    if covered and worker_ranges.split(tx, "around", {"ids": rows.texts(covered)}):
        return seen_claims(tx, ids)
    return found


def seen_claims(tx: rows.Tx, ids: Sequence[str]) -> dict[str, HeldRow]:
    """The same for readers: no range is split."""
    if not ids:
        return {}
    return {row[0]: _held(row) for row in rows.fetch(tx, SQL["held"], {"ids": rows.texts(ids)})}


def _held(row: Sequence[Any]) -> HeldRow:
    """From the columns of `claims.sql: held`, three of which are the lease."""
    lease = Lease(row[16], row[17], bool(row[18]))
    held = _read_held((*row[:16], lease, *row[19:21], None))
    held.n = row[21]
    return held


def end_of(tx: rows.Tx, held: HeldRow, epoch: int) -> End | None:
    """How the claim of `epoch`, which is not the current one, ended; None if there was none."""
    found = rows.first(tx, SQL["attempt_ended"], {"n": held.n, "epoch": epoch})
    if found is None:
        if epoch != held.epoch or not epoch or held.claimed_at is None:
            return None
        found = str(held.state), held.error, held.attempt, held.updated_at
    outcome, error, attempt, ended_at = found
    diagnostic = None
    if outcome not in ("succeeded", "released"):  # they leave none
        params = {"n": held.n, "epoch": epoch, "ended_at": ended_at}
        row = rows.first(tx, SQL["diagnostic_of_end"], params)
        diagnostic = None if row is None else rows.diagnostic(row)
    return End(outcome, attempt, write_behind(outcome, held.result, error), diagnostic)


def refuse(
    tx: rows.Tx, held: HeldRow | None, epoch: int, write: str | None, now: Moment
) -> Refused:
    """Tell a writer that its claim is over, and record once per epoch and kind that it tried.
    `write` None: leave no trace."""
    if held is None:
        return GONE
    end = end_of(tx, held, epoch)
    if end is None or write is None:
        return refusal(end, held.shown_state)
    params = {"n": held.n, "epoch": epoch, "write": write}
    row = rows.first(tx, SQL["fenced_diagnostic"], params)
    recorded = late_write(end, epoch, write, now) if row is None else rows.diagnostic(row)
    if row is None:
        record(tx, [(held.n, recorded)])
    return refusal(end, held.shown_state, recorded)


class _Ended(NamedTuple):
    held: HeldRow
    ending: Ending
    keep: bool

    @property
    def is_reclaimed(self) -> bool:
        return self.ending.outcome == "reclaimed" and not self.ending.is_final


class Endings:
    """Ends of claims that are applied together."""

    def __init__(self, db: Database, tx: rows.Tx, ids: Sequence[str], now: Moment) -> None:
        self._db = db
        self._tx = tx
        self._now = now
        self._held = held_claims(tx, ids)
        self._ended: dict[str, _Ended] = {}

    def held(self, job_id: str) -> HeldRow | None:
        """One of the jobs, after the ends that were added before."""
        if job_id in self._ended:
            applied = list(self._ended)
            self.apply()
            for one in applied:
                del self._held[one]
            self._held.update(held_claims(self._tx, applied))
        return self._held.get(job_id)

    def add(self, held: HeldRow, ending: Ending, *, keep: bool) -> None:
        self._ended[held.id] = _Ended(held, ending, keep)

    def apply(self) -> None:
        ended = list(self._ended.values())
        self._ended.clear()
        if not ended:
            return
        self._keep_attempts([one for one in ended if not one.ending.keeps_worker])
        self._reclaim([one for one in ended if one.is_reclaimed])
        others = [self._params(one) for one in ended if not one.is_reclaimed]
        self._tx.executemany(SQL["end_claim"], others)
        left = [(e.held.n, e.ending.diagnostic) for e in ended]
        record(self._tx, [(n, one) for n, one in left if one is not None])
        remove(self._tx, [one.held.n for one in ended if one.ending.is_final and not one.keep])
        for held, ending, _ in ended:
            self._db.tell_room(held.queue)
            if not ending.is_final:
                self._db.tell(held.queue, ending.job.not_before or ending.job.due_at)

    def _keep_attempts(self, ended: Sequence[_Ended]) -> None:
        alike: dict[tuple[str, str | None], list[int]] = defaultdict(list)
        for held, ending, _ in ended:
            alike[ending.outcome, ending.job.error].append(held.n)
        for (outcome, error), ns in alike.items():
            params = {"ns": rows.numbers(ns), "outcome": outcome, "error": error}
            self._tx.execute(SQL["end_attempts"], {**params, "now": self._now})
        trim(self._tx, "attempts", [one.held.n for one in ended])

    def _reclaim(self, ended: Sequence[_Ended]) -> None:
        """Many rows by one statement, as most ends of a reclaimer are alike."""
        alike: dict[tuple[int, int], list[int]] = defaultdict(list)
        for held, ending, _ in ended:
            strike = ending.job.strikes - held.strikes
            alike[strike, ending.job.attempt_base - held.attempt_base].append(held.n)
        for (strike, not_counted), ns in alike.items():
            params = {"ns": rows.numbers(ns), "strike": strike, "not_counted": not_counted}
            self._tx.execute(SQL["reclaim"], {**params, "now": self._now})

    def _params(self, one: _Ended) -> dict[str, Any]:
        ending = one.ending
        finished_at = self._now if ending.is_final else None
        more = {"now": self._now, "finished_at": finished_at, "keeps_worker": ending.keeps_worker}
        return {**ending.job._asdict(), "n": one.held.n, **more}


def remove(tx: rows.Tx, ns: Sequence[int]) -> None:
    """Finished jobs go at once; those with an id chosen by a client only from sight."""
    if ns:
        tx.execute(SQL["hide"], {"ns": rows.numbers(ns)})
        tx.execute(SQL["remove"], {"ns": rows.numbers(ns)})


def record(tx: rows.Tx, found: Sequence[tuple[int, Diagnostic]]) -> None:
    """Record facts about jobs, at most one for each, given by row."""
    if not found:
        return
    facts = [
        (n, from_datetime(d.at), d.code, d.detail, d.attempt, d.epoch, rows.to_json(d.facts))
        for n, d in found
    ]
    tx.executemany(SQL["add_diagnostic"], facts)
    ns = [n for n, _ in found]
    tx.execute(SQL["mark_trail"], {"ns": rows.numbers(ns)})
    trim(tx, "diagnostics", ns)


def trim(tx: rows.Tx, table: Literal["attempts", "diagnostics"], ns: Sequence[int]) -> None:
    """After one was added for each of these jobs: the first and the last fifty of each are kept."""
    if not ns:
        return
    params = {"ns": rows.numbers(ns), "kept": DIAGNOSTICS_KEPT}
    for [n] in rows.fetch(tx, SQL[f"crowded_{table}"], params):
        tx.execute(SQL[f"trim_{table}"], {"n": n, "kept": DIAGNOSTICS_KEPT})
