"""Dumps that somebody has tampered with: every member of every kind of line, replaced by values
that attack a store. A line is stored if the API would have let it happen; else it is refused, with
its number and the place in it, and nothing is stored. Nothing ever raises anything else."""

from __future__ import annotations

import copy
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oncue.clock import FakeClock
from oncue.core.errors import InvalidInput
from oncue.core.job import JobFilter
from oncue.ports.store import Store
from oncue.scheduler import Scheduler
from oncue.stores.memory import MemoryStore
from oncue.stores.sqlite import SqliteStore
from oncue.transfer import dump, restore
from oncue.transfer.restore import Restore
from oncue.wire.dump import KINDS
from tests.kept.__main__ import START, fill

LATER = START + 700_000
MARK = "@mark@"
VALUES = {
    "null": "null",
    "true": "true",
    "negative": "-1",
    "zero": "0",
    "fraction": "1.5",
    "more than 64 bits": str(2**64),
    "thirty digits": "1" + "0" * 30,
    "five thousand digits": "1" + "0" * 5000,
    "infinite": "1e400",
    "empty": '""',
    "long text": json.dumps("x" * 9000),
    "half a character": '"\\ud800"',
    "NUL": '"a\\u0000b"',
    "reversed": '"\\u202e"',
    "escape": '"\\u001b[2J"',
    "last moment": '"9999-12-31T23:59:59.999Z"',
    "after the last": '"9999-12-31T23:59:59.9999Z"',
    "first moment": '"0001-01-01T00:00:00Z"',
    "beyond the calendar": '"9999-12-31T23:59:59-23:59"',
    "before the calendar": '"0001-01-01T00:00:00+23:59"',
    "no offset": '"2027-01-01T00:00:00"',
    "no such month": '"2027-13-01T00:00:00Z"',
    "deep list": "[" * 3000 + "]" * 3000,
    "deep object": '{"a":' * 3000 + "1" + "}" * 3000,
    "object": "{}",
    "list": "[]",
    "list of null": "[null]",
    "large": json.dumps("A" * 600_000),
    "repeated member": '{"a":1,"a":2}',
    "half a character as a name": '{"\\udfff":1}',
    "not base64": '"!!!"',
    "base64 that is not JSON": '"/w=="',
}


def _dumped() -> list[dict[str, Any]]:
    clock = FakeClock(START)
    store = MemoryStore(clock)
    fill(Scheduler(store, clock=clock), clock)
    out = io.BytesIO()
    dump.Dump(store, out).write()
    return [json.loads(line) for line in out.getvalue().splitlines()]


NAMES_NO_PLACE = re.compile("nested too deeply|is of format|is not a dump|the dump should have")
LINES = [*_dumped(), {"mark": {"after": "", "jobs": 0, "queues": 0}}]
SHAPES = {kind: shape for shape, kind in KINDS.items()}


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every member that a line has, and those that it could have."""
    if isinstance(value, dict):
        for name in value:
            yield (*at, name)
            if name not in ("payload", "result"):
                yield from places(value[name], (*at, name))
    elif isinstance(value, list):
        for place, one in enumerate(value):
            yield (*at, place)
            yield from places(one, (*at, place))


def members(kind: str) -> Iterator[tuple[dict[str, Any], tuple[Any, ...]]]:
    """Each member of a kind of line once, with a line to put it into."""
    seen = set()
    lines = [line for line in LINES if kind in line]
    for line in lines:
        for path in places(line):
            name = re.sub(r"\d+", "#", "/".join(map(str, path)))
            if name not in seen:
                seen.add(name)
                yield line, path
    shape = SHAPES[kind]
    if issubclass(shape, msgspec.Struct):
        for field in msgspec.structs.fields(shape):
            if f"{kind}/{field.encode_name}" not in seen:
                yield lines[0], (kind, field.encode_name)


def tampered(line: dict[str, Any], path: tuple[Any, ...], value: str) -> bytes:
    """A dump of one line, in which this member has another value."""
    [kind] = line
    line = copy.deepcopy(line)
    inner = line
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = MARK
    counted = {
        "jobs": 0,
        "queues": 0,
        **({} if kind in ("header", "mark", "end") else {f"{kind}s": 1}),
    }
    end = {"end": counted}
    texts = [json.dumps(one) for one in (LINES[0], line, end)]
    if kind in ("header", "end"):
        texts.pop(0 if kind == "header" else 2)
    if kind == "end":
        texts[1] = json.dumps(line)
    return "".join(f"{text}\n" for text in texts).replace(json.dumps(MARK), value).encode()


def taken_in(source: bytes, store: Store) -> str | None:
    """Restore it; why it was refused."""
    try:
        restoring = Restore(store)
        restoring.read(io.BytesIO(source))
        restoring.release()
    except InvalidInput as refusal:
        return str(refusal)
    return None


def use(store: Store, clock: FakeClock) -> None:
    """What is stored can be read, dumped, claimed, reclaimed and made due again."""
    cue = Scheduler(store, clock=clock)
    dump.Dump(store, io.BytesIO()).write()
    for job in list(cue.jobs()):
        assert cue.history(job.id) is not None
        assert (job.payload, job.result) is not None
        cue.explain(job.id)
    clock.advance(3600)
    for queue in list(cue.queues()):
        cue.claim(queue.name, "worker", limit=5)
    cue.engine.reclaimer.step()
    cue.engine.recurrer.step()
    dump.Dump(store, io.BytesIO()).write()


def attacks(kind: str) -> Iterator[tuple[str, bytes]]:
    """What is tampered with, and the dump."""
    for line, path in members(kind):
        for name, value in VALUES.items():
            yield f"{'/'.join(map(str, path))} = {name}", tampered(line, path, value)


@pytest.mark.parametrize("kind", list(SHAPES))
def test_a_tampered_line_is_stored_whole_or_refused_by_its_place(kind: str) -> None:
    accepted = 0
    for what, source in attacks(kind):
        clock = FakeClock(LATER)
        store = MemoryStore(clock)
        refusal = taken_in(source, store)
        if refusal is None:
            accepted += 1
            use(store, clock)
            continue
        assert re.match(r"line \d+: |the dump (is torn|should have)", refusal), (what, refusal)
        place = what.partition(" = ")[0].split("/")
        named = [part for part in place if not part.isdigit()]
        if not NAMES_NO_PLACE.search(refusal):
            assert any(name in refusal for name in named), (what, refusal)
        assert len(refusal) < 1000, what
        assert list(store.queues()) == [], what
        assert store.page(JobFilter(), None, 1).items == [], what
    assert accepted or kind == "end"


@pytest.mark.parametrize("kind", ["queue", "schedule", "rule", "event", "job"])
def test_what_memory_takes_a_file_takes_too(kind: str, tmp_path: Path) -> None:
    clock = FakeClock(LATER)
    store = SqliteStore(tmp_path / "jobs.db", clock)
    name = {"job": "id", "event": "eventId"}.get(kind, "name")
    lines = [
        # Under a name of its own, so that the file does not have it already.
        source.split(b"\n")[1].replace(f'"{name}": "'.encode(), f'"{name}": "n{n}-'.encode(), 1)
        for n, (_, source) in enumerate(attacks(kind))
        if taken_in(source, MemoryStore(FakeClock(LATER))) is None
    ]
    counted = {"jobs": 0, "queues": 0} | {f"{kind}s": len(lines)}
    head, end = json.dumps(LINES[0]).encode(), json.dumps({"end": counted}).encode()
    try:
        assert taken_in(b"\n".join([head, *lines, end, b""]), store) is None
        use(store, clock)
    finally:
        store.close()


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(restore, "LONGEST_LINE", 10_000)
    endless = io.BytesIO(json.dumps(LINES[0]).encode() + b"\n" + b"[" * 1_000_000)
    with pytest.raises(InvalidInput, match="line 2: is longer than 10,000 bytes"):
        Restore(MemoryStore()).read(endless)
    assert endless.tell() < 50_000


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"\x00" * 100,
        b"\xff\xfe{}",
        b"[]\n",
        b"[" * 100_000 + b"\n",
        b'{"header":\n',
        b"1\n",
    ],
)
def test_a_file_that_is_no_dump_is_refused(content: bytes) -> None:
    refusal = taken_in(content, MemoryStore())
    assert refusal is not None
    assert len(refusal) < 1000
