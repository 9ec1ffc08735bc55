"""Changes of jobs in SQLite: a page is found by reading alone, then changed by a few statements.

Bulk verbs find jobs by walking whole indexes, each in its own order. One statement and one place
stand for all queues, so what a walk costs does not depend on their number. Entries that cannot be
wanted are leapt over: a due time outside the window, or a whole group of entries that share all of
the key but due time and id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from oncue.core import bulk
from oncue.core.bulk import BulkChange, BulkVerb
from oncue.core.changes import ChangeVerb, JobChange, NotChanged, SeenJob, decide
from oncue.core.cursor import Cursor, Place, cursor_at
from oncue.core.job import JobFilter
from oncue.core.lifecycle import FINAL, LIVE, State
from oncue.core.moment import LATEST, Moment
from oncue.ports.bulk import BulkFound
from oncue.ports.jobs import Changed
from oncue.stores.relational.walks import left_of
from oncue.stores.sqlite import rows, worker_ranges
from oncue.stores.sqlite.database import StorePart, writing
from oncue.stores.sqlite.fencing import trim

SQL = rows.load("bulk")
LOOK = 1000  # entries looked at for a page, unless a longer one is wanted: a few ms
FIRST = 16  # of these, by the first statement in a line: it may be that none is wanted
_seen = rows.reader(SeenJob)


Wanted = Callable[[Place, int | None], bool]
"""Whether anything is wanted of a group of entries, by their key and priority."""


class Walk(NamedTuple):
    """A walk over one index. The last two of a key are due time and id; the others make a group."""

    name: str
    """In cursors."""
    statement: str
    before_all: Place
    wanted: Wanted | None = None
    """None: everything."""


class SqliteChanges(StorePart):
    def find_all(
        self, change: BulkChange, wanted: JobFilter, after: Cursor | None, limit: int
    ) -> BulkFound:
        walks, start = left_of(_walks(change, wanted), after)
        params = _params(change, wanted)
        ids: list[str] = []
        room, most = max(limit, LOOK), FIRST
        with worker_ranges.reading(self.db, queue=wanted.queue) as tx:
            for walk in walks:
                place: Place | None = start or walk.before_all
                start = None
                while place is not None:
                    if room <= 0 or len(ids) >= limit:
                        return BulkFound(ids, cursor_at((walk.name, *place)))
                    left = limit - len(ids)
                    look = min(room, most, max(left, FIRST))
                    bounds = {"limit": look, "wanted": left}
                    found, looked, place = _step(tx, walk, params | bounds, place)
                    ids += found
                    room -= max(looked, 1)
                    most = 4 * most if looked == look else FIRST
        return BulkFound(ids, None)

    @writing
    def change(
        self, tx: rows.Tx, job_ids: Sequence[str], change: JobChange, now: Moment
    ) -> Changed:
        """By a few statements for all of them; then the others are looked at."""
        if not job_ids:
            return Changed({}, None)
        sought = {"ids": rows.sought(job_ids)}
        worker_ranges.split(tx, "around", sought)
        params = {
            **{name: getattr(change.wanted, name) for name in bulk.FILTERS},
            "now": now,
            "begun_at": change.begun_at,
            "due_at": change.due_at,
            "priority": change.priority,
            "payload": change.payload,
            "target": change.queue,
        }
        changed = self._changed(tx, change.verb, params | sought)
        left = {at: job_id for at, job_id in enumerate(job_ids) if job_id not in changed}
        whys: dict[str, NotChanged | None] = {}
        if left:
            found = rows.fetch(tx, SQL["seen"], params | {"ids": rows.sought(left.values())})
            whys = {row[0]: decide(_seen(row), change, now) for row in found}
            assert None not in whys.values(), "the statements and core.changes disagree"
        refused = {at: whys.get(job_id) or NotChanged("unknown") for at, job_id in left.items()}
        return Changed(refused, rows.get_job(tx, job_ids[0]))

    def _changed(self, tx: rows.Tx, verb: ChangeVerb, params: dict[str, Any]) -> set[str]:
        """The ids of the jobs that were changed."""
        found = rows.fetch(tx, SQL[verb], params)
        if verb in (ChangeVerb.REVIVE, ChangeVerb.MOVE):
            found = list(_with_free_keys(found))
            ns = [row[3] for row in found]
            if ns and verb is ChangeVerb.REVIVE:
                tx.execute(SQL["keep_attempts"], {"ns": rows.numbers(ns)})
                trim(tx, "attempts", ns)
            if ns:
                tx.execute(SQL[f"{verb}_found"], params | {"ns": rows.numbers(ns)})
        if verb not in (ChangeVerb.CANCEL, ChangeVerb.STOP):  # by these, nothing becomes due
            worker_ranges.split(tx, "around", params)  # a job may have come into another range
            for _, queue, due_at, *_ in found:
                if due_at is not None:
                    self.db.arrived(tx, {queue: due_at})
        return {row[0] for row in found}


def _with_free_keys(found: Iterable[Any]) -> Iterator[Any]:
    """Those that have no key, and the first of each key that is free where the job will be."""
    given: set[tuple[str, str]] = set()
    for row in found:
        _, queue, _, _, key, taken = row
        if key is None:
            yield row
        elif not taken and (queue, key) not in given:
            given.add((queue, key))
            yield row


def _walks(change: BulkChange, wanted: JobFilter) -> list[Walk]:
    """The walks that together see everything that can be wanted."""
    if wanted.owner is not None:
        return [Walk("owned", "find_owned", (-1, ""))]
    if wanted.key is not None:
        return [Walk("keyed", "find_keyed", (-1, ""))]
    states = change.states if wanted.state is None else change.states & {wanted.state}
    first = wanted.queue or ""
    walks: list[Walk] = []
    if State.SCHEDULED in states:
        walks += _waiting(change, (first, -1, -1, ""))
    if states & LIVE:
        walks.append(Walk("taken", "find_taken", (first, -1, "")))
    if ended := states & FINAL:
        start = (first, "", -1, "")
        walks.append(Walk("ended", "find_ended", start, lambda key, _: key[1] in ended))
    return walks


def _waiting(change: BulkChange, before_all: Place) -> list[Walk]:
    """MOVE and REPRIORITISE give jobs another place in the index. Those that are at the new place
    already are looked at first, so that no job is met again where the change has put it."""
    if change.verb not in (BulkVerb.MOVE, BulkVerb.REPRIORITISE):
        return [Walk("waiting", "find_waiting", before_all)]

    def arrived(key: Place, priority: int | None) -> bool:
        return key[0] == change.queue if change.queue else priority == change.priority

    def others(key: Place, priority: int | None) -> bool:
        return not arrived(key, priority)

    return [
        Walk("arrived", "find_waiting", before_all, arrived),
        Walk("waiting", "find_waiting", before_all, others),
    ]


def _next_line(tx: rows.Tx, params: dict[str, Any], place: Place) -> Place | None:
    """The beginning of the next queue and rank in which jobs wait."""
    queue: Any
    queue, rank, *_ = place
    while queue is not None:
        [found] = rows.first(tx, SQL["next_rank"], {"queue": queue, "rank": rank})
        if found is not None:
            return (queue, found, -1, "")
        bounds = {"queue": queue, "last_queue": params["last_queue"]}
        [queue], rank = rows.first(tx, SQL["next_queue"], bounds), -1
    return None


def _params(change: BulkChange, wanted: JobFilter) -> dict[str, Any]:
    params = asdict(wanted) | {state.value: int(state in change.states) for state in State}
    until = LATEST if wanted.due_before is None else wanted.due_before - 1
    bounds = {"last_queue": wanted.queue or rows.AFTER_EVERY_TEXT, "until": until}
    return params | bounds | {"begun_at": change.begun_at, "start": wanted.due_after or 0}


def _step(
    tx: rows.Tx, walk: Walk, params: dict[str, Any], place: Place
) -> tuple[list[str], int, Place | None]:
    """Walk on from a place by one statement: what was found (up to `wanted`), how many entries were
    looked at (up to `limit`), and where to go on; None: that was the end."""
    ids: list[str] = []
    looked = 0
    places = {f"p{number}": one for number, one in enumerate(place)}
    start, until = params["start"], params["until"]
    for entry in tx.execute(SQL[walk.statement], params | places):
        looked += 1
        due_at = entry[-2]
        is_wanted = walk.wanted is None or walk.wanted(entry[2:], entry[1])
        if not is_wanted or not start <= due_at <= until:
            group = entry[2:-2]
            leaps_ahead = is_wanted and due_at < start
            return ids, looked, (*group, start if leaps_ahead else LATEST + 1, "")
        if entry[0]:
            ids.append(entry[-1])
        if len(ids) == params["wanted"]:
            return ids, looked, entry[2:]
    if looked == params["limit"]:
        return ids, looked, entry[2:]
    # This statement reads one queue and rank at a time, the others read to the end.
    goes_on = walk.statement == "find_waiting"
    return ids, looked, _next_line(tx, params, place) if goes_on else None
