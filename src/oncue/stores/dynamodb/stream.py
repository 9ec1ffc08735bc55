"""The stream of the table: which jobs were started, as its records tell.

A record has an item as it was and as it is. A job is started when it was handed over to its sink:
it is dispatched, and the lease of the dispatcher has ended. Whatever happens to it afterwards is
another record, and does not start it again. Nor does a job that came as such, from a dump.
"""

from __future__ import annotations

import logging
from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from oncue.core.errors import OncueError
from oncue.core.job import Delivery
from oncue.core.lifecycle import State
from oncue.core.token import sign
from oncue.stores.dynamodb import codec, keys
from oncue.stores.dynamodb.filed import Filed
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.dynamodb.wire import from_wire
from oncue.stores.dynamodb.writes import Item

logger = logging.getLogger("oncue.aws")


class StartedJob(NamedTuple):
    delivery: Delivery
    epoch: int
    starter: str
    """The dispatcher that has started it."""


def started_jobs(store: DynamoStore, records: Iterable[Mapping[str, Any]]) -> list[StartedJob]:
    """The jobs that these records of the stream start, in order. What has changed since, such as a
    job that was reclaimed, is left out: a later record tells it."""
    items = [item for item in map(_readable, records) if item is not None]
    found = _parsed(store, {_id_of(item): item for item in items})
    started = []
    for item in items:
        job = found.get(_id_of(item))
        if job is None or job.is_torn or job.record.epoch != _record_of(item).get("epoch"):
            continue
        record = job.record
        if record.state is not State.DISPATCHED:  # its worker has it; the payload may be gone
            continue
        token = sign(store.secret, record.id, record.epoch)
        delivery = Delivery(
            *(record.id, record.due_at, record.payload, record.attempt),
            *(token, record.queue, record.owner),
        )
        started.append(StartedJob(delivery, record.epoch, record.worker or ""))
    return started


def _parsed(store: DynamoStore, items: dict[str, Item]) -> dict[str, Filed]:
    """The jobs of these items, as far as they can be read: see `_readable`."""
    try:
        return store.parse(items, "payload".__eq__)
    except OncueError:
        raise
    except Exception as problem:
        if len(items) == 1:
            _tell(problem)
            return {}
    return {
        name: job
        for job_id, item in items.items()
        for name, job in _parsed(store, {job_id: item}).items()
    }


def _readable(record: Mapping[str, Any]) -> Item | None:
    """As `_read`. What is no record of a job, because another program has written it, starts none:
    if it raised, no later record of the shard would ever be dealt with."""
    try:
        return _read(record)
    except Exception as problem:
        _tell(problem)
        return None


def _tell(problem: Exception) -> None:
    logger.error("a record of the stream cannot be read: %s", type(problem).__name__)


def _read(record: Mapping[str, Any]) -> Item | None:
    """The item of the job that a record starts, if it starts one."""
    change = record["dynamodb"]
    new, old = _item(change.get("NewImage")), _item(change.get("OldImage"))
    was_handed_over = _is_handed_over(old) and _record_of(old).get("epoch") == _record_of(new).get(
        "epoch"
    )
    is_started = _is_handed_over(new) and "rec" in old and not was_handed_over
    return new if is_started else None


def _is_handed_over(item: Item) -> bool:
    if item.get("sk") != keys.HEAD or "rec" not in item:
        return False
    record = _record_of(item)
    return record.get("state") == State.DISPATCHED and "lease" not in record


def _record_of(item: Item) -> dict[str, Any]:
    record: dict[str, Any] = codec.from_text(item["rec"])
    return record


def _id_of(item: Item) -> str:
    return str(item["pk"]).removeprefix(keys.JOB_PREFIX)


def _item(image: Mapping[str, Any] | None) -> Item:
    """An item of a record. Bytes are text there, because Lambda gets events as JSON."""
    wire = {
        name: {"B": b64decode(value["B"])} if isinstance(value.get("B"), str) else value
        for name, value in (image or {}).items()
    }
    return from_wire(wire)
