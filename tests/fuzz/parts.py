"""The parts of the run: which inputs are made, and what must be true of each."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from oncue.clock import FakeClock
from oncue.core.cron import cron
from oncue.core.errors import Conflict, InvalidInput
from oncue.scheduler import Scheduler
from oncue.stores.memory import MemoryStore
from oncue.stores.sqlite import SqliteStore
from oncue.transfer import declared
from oncue.transfer.restore import Restore
from oncue.wire.rules import NewRule
from tests.fuzz import requests
from tests.fuzz.mutations import mutated
from tests.fuzz.shapes import NAMES, TEXTS, changed, values, written
from tests.fuzz.target import ANSWER_SECONDS, target
from tests.kept.__main__ import START

CORPUS = Path(__file__).parent / "corpus"
Fire = Callable[[bytes], None]
"""Raises if something is wrong with what becomes of an input."""
REFUSED = (InvalidInput, Conflict)
"""How input is refused."""


class Part(NamedTuple):
    inputs: SearchStrategy[bytes]
    opened: Callable[[Path], AbstractContextManager[Fire]]
    """Given an empty folder."""


@contextmanager
def over_http(folder: Path, patience: float) -> Iterator[Fire]:
    with target(folder, patience) as found:
        yield found.fire


# -- dump files ------------------------------------------------------------------------------------


WHOLE_DUMP = (CORPUS / "dumps" / "whole.ndjson").read_bytes()
"""Of a store that holds something of every kind: that of `tests.kept`."""


@st.composite
def dumps(draw: DrawFn) -> bytes:
    """A dump in which some values are others, or some bytes."""
    lines = [json.loads(line) for line in WHOLE_DUMP.splitlines()]
    for _ in range(draw(st.integers(0, 2))):
        number = draw(st.integers(0, len(lines) - 1))
        lines[number] = draw(changed(lines[number]))
    data = b"".join(written(line) + b"\n" for line in lines)
    words = (b"\n", b"{", b"}", b'"', b"null", b"\\ud800", b"1e999", b"-", b"9" * 30, b"\xff")
    return draw(mutated(st.just(data), words)) if draw(st.booleans()) else data


@contextmanager
def restored(folder: Path) -> Iterator[Fire]:
    """Into a file of SQLite, which takes less than a store in memory does."""
    empty = folder / "empty.db"
    SqliteStore(empty).close()

    def restore(data: bytes) -> None:
        with TemporaryDirectory(dir=folder) as place:
            store = SqliteStore(shutil.copy(empty, place))
            restoring = Restore(store)
            try:
                with suppress(*REFUSED):
                    restoring.read(io.BytesIO(data))
                    restoring.release()
            finally:
                store.close()

    yield restore


# -- texts -----------------------------------------------------------------------------------------

_FIELD = st.sampled_from(
    ["*", "*", "*", "*/5", "0", "1,2-4", "10", "L", "MON-FRI", "1#2", "5L", "JAN"]
)
_CRON = st.lists(_FIELD, min_size=5, max_size=6).map(" ".join)
_NEARLY_CRON = st.lists(_FIELD | st.text("0123456789*/,-#LW?", max_size=6), max_size=7).map(
    " ".join
)
_ZONES = ("UTC", "Europe/Paris", "Australia/Lord_Howe", "America/Sao_Paulo", "Antarctica/Troll")


def crons() -> SearchStrategy[bytes]:
    """An expression and, on a line of its own, a time zone."""
    right = st.sampled_from(_ZONES)
    zones = right | st.sampled_from(TEXTS) | st.text(max_size=12)
    made = st.tuples(_CRON | _NEARLY_CRON | st.text(max_size=20), right | zones).map("\n".join)
    return made.map(lambda text: text.encode("utf-8", "surrogatepass"))


def schedule(data: bytes) -> None:
    expression, _, zone = data.decode("utf-8", "surrogatepass").partition("\n")
    with suppress(*REFUSED):
        found = cron(expression, zone)
        moment = START
        for _ in range(3):
            occurrence = found.after(moment)
            if occurrence is None:
                break
            assert occurrence.at > moment
            moment = occurrence.at


def rules() -> SearchStrategy[bytes]:
    """Files of rules."""
    rule = st.builds(
        lambda fields, name: {"name": name, **fields} if isinstance(fields, dict) else fields,
        values(NewRule),
        st.sampled_from(NAMES) | st.sampled_from(TEXTS),
    )
    files = (st.lists(rule, max_size=3) | rule).map(written)
    return files | mutated(files, (b"{", b"]", b'"', b",", b"\\ud800", b"\xff", b"1e999"))


def declare(data: bytes) -> None:
    clock = FakeClock(START)
    with suppress(*REFUSED), Scheduler(MemoryStore(clock), clock=clock) as cue:
        declared.apply(cue, declared.compare(cue, declared.read(declared.RULES, data, "a file")))
        for kind in ("FILE", "TABLE", "TIME_BASED"):
            happened = {"eventType": kind, "eventTimestamp": "2027-01-15T07:50:00Z"}
            cue.publish([{**happened, "eventResourceId": "a"}])


# --------------------------------------------------------------------------------------------------


@contextmanager
def here(check: Fire, folder: Path) -> Iterator[Fire]:
    """In this process."""
    yield check


PARTS = {
    "bytes": Part(requests.RAW, partial(over_http, patience=0.02)),
    "requests": Part(requests.MUTATED, partial(over_http, patience=0.02)),
    "json": Part(requests.CALLS, partial(over_http, patience=ANSWER_SECONDS)),
    "dumps": Part(dumps(), restored),
    "cron": Part(crons(), partial(here, schedule)),
    "rules": Part(rules(), partial(here, declare)),
}


def corpus(part: str) -> list[Path]:
    """Inputs that are kept: all that were a failure once, and a few more."""
    return sorted((CORPUS / part).iterdir())


def fire(part: str, number: int, examples: int, check: Fire) -> None:
    """So many inputs, the same for the same number. Raises if one of them fails, after Hypothesis
    has found the smallest that does: that one is the last given to `check`."""

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(PARTS[part].inputs)
    def run(data: bytes) -> None:
        check(data)

    run()
