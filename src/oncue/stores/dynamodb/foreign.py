"""Items that programs put into the inbox, and what they mean as jobs."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from oncue.core import moment
from oncue.core.errors import InvalidInput, OncueError, TooLarge
from oncue.core.ids import check_id, first_epoch, is_id
from oncue.core.job import NewJob
from oncue.core.moment import Moment
from oncue.core.payload import LIMIT_BYTES
from oncue.core.queue import DEFAULT_QUEUE, check_queue_name
from oncue.stores.dynamodb.buckets import bucket_in
from oncue.stores.dynamodb.keys import Key
from oncue.stores.dynamodb.writes import If, Item

_encode = msgspec.json.Encoder(order="deterministic", decimal_format="number").encode
_MEANING = ("detail", "queue")
"""The attributes that mean something; others are left alone."""
_SETS = {"SS": "S", "NS": "N", "BS": "B"}


class Foreign(NamedTuple):
    """One item of the inbox, as it was read. Implements `oncue.ports.inbox.InboxItem`."""

    item: Item
    id: str
    queue: str
    due_at: Moment
    payload: bytes
    problem: str | None = None
    """Why it cannot be a job. The other fields are then as good as they can be."""

    @property
    def key(self) -> Key:
        return Key(self.item["pk"], self.item["sk"])

    @property
    def place(self) -> tuple[str, str]:
        return self.key

    @property
    def is_same(self) -> If:
        """That the item is still the one that was read. Producers use keys again."""
        known = {name: value for name, value in self.item.items() if name in _MEANING}
        conditions = [
            f"#{name} = :{name}" if name in known else f"attribute_not_exists(#{name})"
            for name in _MEANING
        ]
        return If(" AND ".join(["attribute_exists(#pk)", *conditions]), known)

    @property
    def digest(self) -> bytes:
        """Of what it asks for: two items with the same one are the same job, put twice."""
        asked = _encode([self.id, self.queue, self.due_at, self.problem])
        return hashlib.blake2b(asked + self.payload, digest_size=16).digest()

    @property
    def other_id(self) -> str:
        """Another id for it, where a job with other contents has its own."""
        return f"{self.id[:48]}-{self.digest.hex()[:24]}"

    def as_new(self, job_id: str, now: Moment) -> NewJob:
        job = NewJob(job_id, self.queue, self.due_at, self.payload, 0, now)
        return job._replace(digest=self.digest, epoch=first_epoch(now))


def read(item: Item) -> Foreign:
    """What an item means. Nothing in it can make this fail."""
    queue = item.get("queue")
    try:
        job_id, due_at = _read_place(item["sk"])
        name = DEFAULT_QUEUE if queue is None else check_queue_name(queue, "queue")
        if "detail" not in item:
            raise InvalidInput("is missing; it is the payload of the job.", "detail")
        return Foreign(item, job_id, name, due_at, _payload(item["detail"]))
    except OncueError as problem:
        return _malformed(item, str(problem))


def _read_place(sk: str) -> tuple[str, Moment]:
    due, mark, job_id = sk.partition("#")
    if not mark:
        raise InvalidInput("must be the due time, '#' and an id.", "sk")
    due_at = moment.parse(due, "sk")
    if due_at < 0:
        raise InvalidInput(f"{due} is before 1970.", "sk")
    return check_id(job_id, "sk"), due_at


def _malformed(item: Item, problem: str) -> Foreign:
    """An item that can only be set aside, with as much of it as can be kept."""
    due, _, job_id = item["sk"].partition("#")
    try:
        due_at = max(0, moment.parse(due))
    except InvalidInput:
        due_at = bucket_in(item["pk"])
    queue = item.get("queue", DEFAULT_QUEUE)
    try:
        check_queue_name(queue)
    except InvalidInput:
        queue = DEFAULT_QUEUE
    if not is_id(job_id):
        key = f"{item['pk']}\n{item['sk']}".encode()
        job_id = f"inbox-{hashlib.blake2b(key, digest_size=16).hexdigest()}"
    try:
        payload = _payload({"M": {name: _raw(value) for name, value in item.items()}})
    except OncueError:
        payload = b"null"
    return Foreign(item, job_id, queue, due_at, payload, problem)


def _payload(detail: Any) -> bytes:
    """An attribute as JSON: sets become arrays, binary becomes base64, numbers stay exact."""
    text = _encode(plain(_raw(detail)))
    if len(text) > LIMIT_BYTES:
        raise TooLarge(
            f"{len(text):,} bytes as JSON; at most {LIMIT_BYTES:,} are allowed.", "detail"
        )
    return text


def _raw(value: Any) -> Mapping[str, Any]:
    """A value as the service gives it, from what `from_wire` made of it."""
    match value:
        case str():
            return {"S": value}
        case int():
            return {"N": str(value)}
        case bytes():
            return {"B": value}
    assert isinstance(value, Mapping)
    return value


def plain(value: Mapping[str, Any]) -> Any:
    """A value as the service gives it, as JSON has it; numbers are decimal."""
    [(kind, content)] = value.items()
    match kind:
        case "S" if "\0" in content:
            raise InvalidInput("contains the NUL character, which not every store keeps.", "detail")
        case "N":
            return Decimal(content)
        case "B":
            return base64.b64encode(content).decode()
        case "M":
            return {plain({"S": name}): plain(one) for name, one in content.items()}
        case "L":
            return [plain(one) for one in content]
        case "SS" | "NS" | "BS":
            # Sets have no order; with one, the same set is always the same payload.
            return sorted(plain({_SETS[kind]: one}) for one in content)
        case "NULL":
            return None
    return content
