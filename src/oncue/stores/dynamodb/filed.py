"""A job as the table has it: its record, and the items that go with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from secrets import randbits
from typing import Any, NamedTuple

from oncue.core.ids import REMEMBERED_MS, queue_digest
from oncue.core.ids import read as read_id
from oncue.core.job import NewJob
from oncue.core.lifecycle import FINAL, LIVE, State
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.core.record import Record
from oncue.core.shard import Turn
from oncue.stores.dynamodb import codec, keys
from oncue.stores.dynamodb.keys import Entry, Key
from oncue.stores.dynamodb.known import KnownQueue
from oncue.stores.dynamodb.writes import Item, as_ttl

ITEM_BYTES = 1024  # what one write unit carries; a record is kept below it where that is possible
KEY_BYTES = 120  # about what its keys and the names of its attributes take
SMALL_RESULT_BYTES = 512
"""Results of operations that are larger stand apart."""


PART_BYTES = 350 * 1024  # of an item that holds one part; the service takes 400 KiB

UNREAD = b"(not read)"
"""Stands for a part that stands apart and was not read; compared by identity."""
MISSING = b'{"oncue":"this part of the job is missing from the table"}'
"""The same for one that was to be read and is not there."""


class Line(NamedTuple):
    """Where a job waits."""

    pk: str
    sk: str
    twin: str | None = None
    """Of a job that is put off: its second place, by due time."""

    @property
    def keys(self) -> list[Key]:
        places = [self.sk] if self.twin is None else [self.sk, self.twin]
        return [Key(self.pk, sk) for sk in places]

    @property
    def shard(self) -> int:
        return keys.shard_in(self.pk)

    def is_same_place(self, other: Line) -> bool:
        """But for the version."""
        return self.pk == other.pk and turn_at(self.sk) == turn_at(other.sk)


@dataclass(slots=True)
class Filed:
    """All but `record` is as the table has it; the record may have been changed since it was
    read."""

    record: Record
    ver: int = 0
    """Of its record. 0: it has none, and is only a waiting item (plain), or is new."""
    line: Line | None = None
    """Where it waits."""
    look: Entry | None = None
    sides: dict[str, int] = field(default_factory=dict)
    """The parts that stand apart, and the numbers in their keys."""
    contents: dict[str, bytes] = field(default_factory=dict)
    """What they contain."""
    counted: bool = False
    """Whether it counts as under way in the limits of its queue."""
    until: Moment | None = None
    """When the table forgets it."""
    key_of: str | None = None
    """The queue in which it holds its key."""
    owned_at: str | None = None
    """Its place among the jobs of its owner."""

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def is_torn(self) -> bool:
        """Whether a part of it is missing: it cannot be handed over."""
        return any(self.contents.get(name) is MISSING for name in self.sides)

    @property
    def is_plain(self) -> bool:
        return self.ver == 0 and self.line is not None

    def is_gone(self, now: Moment) -> bool:
        """Whether it is as if it were not there. Items may outlive their time by days."""
        return self.until is not None and self.until < now

    def is_visible(self, now: Moment) -> bool:
        return not self.record.hidden and not self.is_gone(now)


def is_plain(new: NewJob) -> bool:
    """Whether a new job needs no record: its id tells where it waits, and nothing else finds it."""
    if new.digest is not None or new.owner is not None or new.expires_at is not None:
        return False
    parts = read_id(new.id)
    return parts is not None and parts[1:] == (new.due_at, queue_digest(new.queue), new.priority)


def line_of(record: Record, known: KnownQueue, ver: int) -> Line | None:
    """Where a job waits, if it does."""
    if record.state is not State.SCHEDULED:
        return None
    pk = keys.line(record.queue, known.shard_of(record.id))
    if record.not_before is None:
        return Line(pk, keys.place(record.next_turn, ver))
    place = keys.put_off_place(record.not_before, record.id, ver)
    return Line(pk, place, keys.put_off_by_due(record.due_at, record.id, ver))


def look_of(record: Record, known: KnownQueue, was: Entry | None) -> Entry | None:
    """Its entry in the index. That of a live claim may be early: who looks then moves it."""
    if record.hidden:
        return None
    if record.state in FINAL:
        pk = keys.finished(record.queue, record.state, known.shard_of(record.id))
        return Entry(pk, keys.by_due(record.due_at, record.id))
    if record.state in LIVE:
        live = keys.live(keys.look_shard(record.id))
        if record.lapses_at is None:
            return Entry(live, keys.by_due(keys.NEVER, record.id))
        entry = Entry(live, keys.by_due(record.lapses_at, record.id))
        return was if was is not None and was.look == live and was.at < entry.at else entry
    if record.expires_at is None:
        return None
    number = keys.look_shard(record.id, keys.EXPIRING_SHARDS)
    return Entry(keys.expiring(number), keys.by_due(record.expires_at, record.id))


def forgotten_at(record: Record, queue: Queue) -> Moment | None:
    """When the table may forget a job; None: it is not over, or is kept for ever. An ended job is
    remembered for a day at least: its record keeps a late waiting item from being taken."""
    if record.finished_at is None:
        return None
    least = record.finished_at + REMEMBERED_MS
    if record.hidden:
        return least
    if queue.retention_seconds is None:
        return None
    return max(least, record.finished_at + round(queue.retention_seconds * 1000))


class Written(NamedTuple):
    """A record as items."""

    item: Item
    apart: dict[str, bytes]
    """Parts that were not written before."""
    sides: dict[str, int]


def as_items(job: Filed, ver: int, *, all_anew: bool = False) -> Written:
    """The item of a record. What it has no room for stands apart; what stands apart already and has
    not changed stays there, unless all is written anew."""
    record = job.record
    # Of jobs that are gone, only those are dumped and answered with whose id a client chose.
    payload = None if record.hidden and record.digest is None else record.payload
    contents = {"payload": payload, "result": record.result}
    for one in record.operations.values():
        result = one.result
        if result is not None and (_is_elsewhere(result) or len(result) > SMALL_RESULT_BYTES):
            contents[f"o.{one.name}"] = result
    past = codec.encode_past(record, [name[2:] for name in contents if name.startswith("o.")])
    contents |= _cut(past)
    shown = codec.encode(record)
    sides, apart, inline = _sort_out(job, contents, {} if all_anew else job.sides, _room(shown))
    more = {"line": job.line, "sides": sides, "counted": job.counted, "until": job.until}
    shown |= {name: value for name, value in more.items() if value}
    item: Item = {**keys.job(record.id)._asdict(), "ver": ver, "rec": codec.to_text(shown)}
    if job.look is not None:
        item |= job.look._asdict()
    if job.until is not None:
        item["ttl"] = as_ttl(job.until)
    if "past" in inline:
        inline["past"] = inline["past"].decode()
    return Written(item | inline, apart, sides)


def is_past(part: str) -> bool:
    """Whether a part holds what was, or a piece of it."""
    return part == "past" or part.startswith("past.")


def _cut(past: str | None) -> dict[str, bytes]:
    """What was, in pieces that the table takes. Mostly it is one."""
    text = b"" if past is None else past.encode()
    return {
        f"past.{at // PART_BYTES}" if at else "past": text[at : at + PART_BYTES]
        for at in range(0, len(text), PART_BYTES)
    }


def _sort_out(
    job: Filed, contents: dict[str, bytes | None], there: Mapping[str, int], room: int
) -> tuple[dict[str, int], dict[str, bytes], dict[str, Any]]:
    """Which parts stand apart, which of them are new, and which are inside the record. The number
    in the keys of the new ones is random: of two who change a job at the same moment, none writes
    over the parts of the other."""
    number = randbits(40)
    sides: dict[str, int] = {}
    apart: dict[str, bytes] = {}
    inline: dict[str, Any] = {}
    for name, content in contents.items():
        if content is None:
            continue
        if _is_elsewhere(content):
            sides[name] = job.sides[name]
        elif name in there and job.contents.get(name) == content:
            sides[name] = there[name]
        elif not name.startswith(("o.", "past.")) and len(content) <= room:
            inline[name] = content
            room -= len(content)
        else:
            sides[name], apart[name] = number, content
    return sides, apart, inline


def _is_elsewhere(content: bytes) -> bool:
    """Whether it only stands for a part."""
    return content is UNREAD or content is MISSING


def _room(shown: Mapping[str, Any]) -> int:
    """How many bytes of its parts fit into a record."""
    return ITEM_BYTES - KEY_BYTES - len(codec.to_text(shown).encode())


def stands_apart(record: Record) -> bool:
    """Whether the payload of a new job has no room in its record."""
    return len(record.payload) > _room(codec.encode(record))


def waiting_item(record: Record, known: KnownQueue) -> tuple[Item, list[Item]]:
    """A new plain job: all of it in one item, and what stands apart."""
    item: Item = {"pk": keys.line(record.queue, known.shard_of(record.id))}
    item["sk"] = keys.place(record.next_turn, 0)
    shown = codec.encode(record)
    if len(record.payload) <= ITEM_BYTES:
        return {**item, "rec": codec.to_text(shown), "payload": record.payload}, []
    part = {**keys.side(record.id, "payload", 0)._asdict(), "part": record.payload}
    return {**item, "rec": codec.to_text({**shown, "sides": {"payload": 0}})}, [part]


def places(job: Filed) -> list[Item]:
    """The waiting items of a job that has a record."""
    more = {"ver": job.ver}
    if job.record.expires_at is not None:
        more["expires"] = job.record.expires_at
    return [{**key._asdict(), **more} for key in job.line.keys] if job.line else []


def turn_at(sk: str) -> str:
    """A place without its version: the turn of a waiting job as text."""
    return sk.rpartition("#")[0]


def plain_turn(job_id: str) -> tuple[Turn, str] | None:
    """What a minted id says: the turn of its job if it is plain, and the digest of its queue."""
    parts = read_id(job_id)
    if parts is None:
        return None
    return Turn(True, -parts.priority, parts.due_at, job_id), parts.queue_digest


def read_filed(job_id: str, item: Item, shown: dict[str, Any], parts: dict[str, bytes]) -> Filed:
    """A job from its item: its record, or its waiting item if it is plain. `shown` is the text of
    the item, `parts` what was read of the parts that stand apart."""
    sides = shown.get("sides", {})
    contents: dict[str, bytes] = {name: parts.get(name, UNREAD) for name in sides}
    pieces = [contents[name] for name in sides if is_past(name)]
    past = b"".join(pieces).decode() if pieces else item.get("past")
    if any(piece is MISSING for piece in pieces):
        past = None
    payload: bytes = contents.get("payload") or item.get("payload", b"")
    result = contents.get("result", item.get("result"))
    record = codec.decode(job_id, shown, payload, result, past)
    for name in sides:
        if name.startswith("o.") and name[2:] in record.operations:
            step = record.operations[name[2:]]
            record.operations[step.name] = replace(step, result=contents[name])
    line = shown.get("line")
    is_record = item["sk"] == keys.HEAD
    unfinished = record.state not in FINAL
    place = keys.by_due(record.due_at, job_id)
    return Filed(
        record,
        ver=item["ver"] if is_record else 0,
        line=(None if line is None else Line(*line)) if is_record else Line(item["pk"], item["sk"]),
        look=Entry(item["look"], item["at"]) if "look" in item else None,
        sides=sides,
        contents=contents,
        counted=shown.get("counted", False),
        until=shown.get("until"),
        key_of=record.queue if record.key is not None and unfinished else None,
        owned_at=None if record.owner is None or record.hidden else place,
    )
