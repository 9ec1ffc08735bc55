"""Jobs as rows of PostgreSQL: each is a `Record` of core, which decides what becomes of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import msgspec

from oncue.core import stamp
from oncue.core.fencing import End, Write
from oncue.core.job import Attempt, Operation
from oncue.core.lease import Lease
from oncue.core.lifecycle import FINAL, LIVE, State
from oncue.core.moment import Moment, from_datetime, maybe_datetime, to_datetime
from oncue.core.record import Record
from oncue.stores.past import past_rows, read_past
from oncue.stores.postgresql.binary import Texts
from oncue.stores.postgresql.tx import PgTx, Steps

_STATES = {state.value: state for state in State}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


_NOT_COLUMNS = frozenset(
    {"turn", "covered", "lease", "operations", "diagnostics", "attempts", "ends", "fenced"}
    | {"payload"}
)
_OF_RECORD = tuple(one.name for one in fields(Record) if one.name not in _NOT_COLUMNS)
"""Fields of a record that are columns of the same name."""
COLUMNS = (
    *(*_OF_RECORD, "lease_until", "lease_ms", "lease_asked", "shard", "forget_at", "past"),
    *("covered", "payload"),
)
"""As in `jobs.sql: columns`. Where the payload is not wanted it is left out, or empty."""


Key = tuple[str, str]
"""A queue and a key in it."""


class FiledRow(NamedTuple):
    """A job and where its row is."""

    record: Record
    shard: int
    forget_at: Moment | None = None
    """Of a job that is gone and only remembered: until when."""
    payload: bytes = b""
    """As it was read, if it was. What has not changed is not written again."""
    result: bytes | None = None
    """The same."""

    def hide(self, until: Moment) -> FiledRow:
        """The job is gone; only its id, and how it ended, is remembered until then."""
        self.record.hide()
        return self._replace(forget_at=until)


def read_stored(row: Sequence[Any]) -> FiledRow:
    """From `jobs.sql: columns` or `bare_columns`. Without its operations, which are rows of their
    own."""
    values = {"payload": b"", **dict(zip(COLUMNS, row, strict=False))}
    shard, past, claimed_at = values.pop("shard"), values.pop("past"), values["claimed_at"]
    forget_at = values.pop("forget_at")
    names = ("lease_until", "lease_ms", "lease_asked")
    values["lease"] = Lease(*(values.pop(name) for name in names))
    values["state"] = _STATES[values["state"]]
    values["claimed_at"] = claimed_at or 0
    values["nonce"] = _read_nonce(values["nonce"])
    if values["instant"] is not None:
        values["instant"] = stamp.to_datetime(values["instant"])
    record = Record(**values)
    if past is not None:
        read_past(record, _decode(past))
    if claimed_at is not None:
        _read_last_attempt(record, claimed_at)
    return FiledRow(record, shard, forget_at, record.payload, record.result)


def _read_last_attempt(record: Record, claimed_at: Moment) -> None:
    """The attempt that the row itself tells of: it goes on, or it ended the job."""
    ended = record.state in FINAL
    outcome = record.state.value if ended else None
    record.attempts.append(
        Attempt(
            record.attempt,
            record.epoch,
            to_datetime(claimed_at),
            record.worker,
            outcome,
            maybe_datetime(record.finished_at) if ended else None,
        )
    )
    if outcome is not None and record.epoch not in record.ends:
        # A completion; every other end is told by `past`.
        write = Write("complete", record.result)
        record.ends[record.epoch] = End(outcome, record.attempt, write, None)


def row_of(stored: FiledRow) -> dict[str, Any]:
    """The columns of a record that was changed, by name. In `past` is everything that the row
    itself does not tell."""
    record = stored.record
    attempts = record.attempts
    in_row = bool(attempts) and _is_told_by_row(record, attempts[-1])
    kept = past_rows(record, attempts[:-1] if in_row else attempts)
    row = {name: getattr(record, name) for name in _OF_RECORD}
    lease = record.lease
    return row | {
        "state": record.state.value,
        "payload": None if record.payload == stored.payload else record.payload,
        "new_result": record.result != stored.result,
        "instant": None if record.instant is None else stamp.from_datetime(record.instant),
        "nonce": nonce_text(record.nonce),
        "claimed_at": from_datetime(attempts[-1].claimed_at) if in_row else None,
        "lease_until": lease.until,
        "lease_ms": lease.length_ms,
        "lease_asked": lease.asked,
        "shard": stored.shard,
        "forget_at": stored.forget_at,
        "past": _encode(kept).decode() if kept else None,
    }


def _is_told_by_row(record: Record, last: Attempt) -> bool:
    if record.state in LIVE:
        return True
    ended = record.state in FINAL and last.outcome == record.state.value
    return ended and last.ended_at == maybe_datetime(record.finished_at)


def nonce_text(nonce: tuple[str, int] | None) -> str | None:
    return None if nonce is None else f"{nonce[0]}/{nonce[1]}"


def _read_nonce(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    nonce, _, place = text.rpartition("/")
    return nonce, int(place)


def read_operation(row: Sequence[Any]) -> Operation:
    """From `jobs.sql: operation_columns`."""
    name, state, updated_at, percent, message, result = row
    return Operation(name, state, to_datetime(updated_at), percent, message, result)


def possible(job_ids: Iterable[str]) -> list[str]:
    """Those that a job can have: PostgreSQL takes no text with NUL."""
    return [one for one in job_ids if "\0" not in one]


def by_ids(job_ids: Iterable[str], whole: Iterable[str] = ()) -> dict[str, list[str]]:
    """The parameters of `jobs.sql: found`. Only jobs that are in `whole` have their payloads."""
    return {"ids": sorted(set(possible(job_ids))), "whole": possible(whole)}


def find(tx: PgTx, job_ids: Iterable[str], whole: Iterable[str] = ()) -> dict[str, FiledRow]:
    """These jobs as they are, also hidden ones."""
    found = tx.rows("jobs", "by_ids", by_ids(job_ids, whole))
    return {row[0]: read_stored(row) for row in found}


def holders_of_keys(keys: Collection[Key]) -> Steps[dict[Key, str]]:
    """The id of the unfinished job that has it, for each of these keys that one has."""
    if not keys:
        return {}
    queues, names = zip(*keys, strict=True)
    found = yield "jobs", "holders_of_keys", {"queues": Texts.of(queues), "keys": Texts.of(names)}
    return {(queue, key): job_id for queue, key, job_id in found}


def lock(tx: PgTx, job_ids: Iterable[str], *, free: bool = False) -> dict[str, FiledRow]:
    """These jobs without their payloads. Nobody else changes them until the end of the transaction.
    They are locked in the order of their ids, against deadlocks. With `free`, without those that
    others have locked."""
    statement = "lock_free_by_ids" if free else "lock_by_ids"
    found = tx.rows("jobs", statement, by_ids(job_ids))
    return {row[0]: read_stored(row) for row in found}


def save(tx: PgTx, changed: Iterable[FiledRow]) -> None:
    """Write jobs that were changed. Their rows are locked."""
    rows = [row_of(one) for one in changed]
    if len(rows) == 1:
        tx.run("jobs", "save", rows[0])
    elif rows:
        tx.executemany(tx.sql("jobs", "save"), rows)


def visible(found: Mapping[str, FiledRow], job_id: str) -> FiledRow | None:
    one = found.get(job_id)
    return None if one is None or one.record.hidden else one
