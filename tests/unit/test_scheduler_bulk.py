"""Bulk verbs of the scheduler: whole, in parts, and only counted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from oncue import BulkOutcome, InvalidInput, State
from oncue.core.bulk import BulkCursor
from oncue.core.cursor import cursor_at, place_at
from oncue.core.moment import to_datetime
from oncue.engine.alarm import Alarm
from oncue.ports.bulk import BulkFound
from oncue.ports.jobs import Changed
from oncue.stores.memory import MemoryStore
from oncue.stores.sqlite import SqliteStore
from oncue.testing import FakeClock, HandDriven
from oncue.usecases.bulk import CHUNK


@pytest.fixture(params=["memory", "sqlite"])
def cue(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HandDriven]:
    clock = FakeClock()
    store = SqliteStore(tmp_path / "jobs.db", clock) if request.param == "sqlite" else "memory:"
    with HandDriven(store, clock=clock) as cue:
        yield cue


def add(cue: HandDriven, number: int, **fields: Any) -> list[str]:
    return cue.schedule_many(({} for _ in range(number)), **{"queue": "mail", **fields}).ids


def states(cue: HandDriven, **wanted: Any) -> set[State]:
    return {job.state for job in cue.jobs(**wanted)}


def test_a_dry_run_counts_and_shows_a_sample_and_changes_nothing(cue: HandDriven) -> None:
    added = add(cue, 30, delay=60)
    before = list(cue.jobs())
    outcome = cue.cancel_all(queue="mail", dry_run=True)
    assert (outcome.matched, outcome.changed, outcome.next_cursor) == (30, 0, None)
    assert [job.id for job in outcome.sample] == added[:20]
    assert list(cue.jobs()) == before


def test_all_jobs_that_fit_are_changed_in_many_small_parts(cue: HandDriven) -> None:
    count = 2 * CHUNK + 5
    add(cue, count, delay=60)
    kept = add(cue, 3, queue="other", delay=60)
    told: list[tuple[int, bool]] = []
    outcome = cue.cancel_all(
        queue="mail",
        progress=lambda so_far: told.append((so_far.changed, bool(so_far.next_cursor))),
    )
    assert (outcome.matched, outcome.changed, outcome.next_cursor) == (count, count, None)
    assert told == [(CHUNK, True), (2 * CHUNK, True), (count, False)]
    assert states(cue, queue="mail") == {State.CANCELLED}
    assert {job.state for job in outcome.sample} == {State.CANCELLED}
    assert [cue.job(job_id).state for job_id in kept] == [State.SCHEDULED] * 3


def test_a_part_of_it_can_be_gone_on_from(cue: HandDriven) -> None:
    added = add(cue, 10, delay=60)
    first = cue.cancel_all(queue="mail", limit=4)
    assert (first.matched, first.changed) == (4, 4)
    assert [cue.job(job_id).state for job_id in added].count(State.CANCELLED) == 4
    second = cue.cancel_all(queue="mail", cursor=first.next_cursor)
    assert (second.matched, second.changed, second.next_cursor) == (6, 6, None)


def test_it_stops_when_its_time_is_over(cue: HandDriven) -> None:
    add(cue, CHUNK + 50, delay=60)
    outcome = cue.cancel_all(queue="mail", seconds=5, progress=lambda _: _pass(cue, 6))
    assert outcome.changed == CHUNK
    assert outcome.next_cursor is not None


def _pass(cue: HandDriven, seconds: float) -> None:
    cue.clock.advance(seconds)


class SlowStore(MemoryStore):
    """Takes a quarter of a second for each write of a bulk verb, and as much for finding."""

    clock: FakeClock

    def find_all(self, *given: Any) -> BulkFound:
        self.clock.advance(0.25)
        return super().find_all(*given)

    def change(self, *given: Any) -> Changed:
        self.clock.advance(0.25)
        return super().change(*given)


def test_others_get_a_quarter_of_the_time_of_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    cue = HandDriven(SlowStore(clock), clock=clock)
    add(cue, 2 * CHUNK + 100, delay=60)
    rests: list[float] = []
    monkeypatch.setattr(Alarm, "pause", lambda self, seconds: rests.append(seconds))
    assert cue.cancel_all(queue="mail").changed == 2 * CHUNK + 100
    assert rests == [0.0625, 0.0625]


def test_taken_jobs_are_asked_to_stop_with_running(cue: HandDriven) -> None:
    [taken] = add(cue, 1)
    cue.claim("mail", "ada")
    assert cue.cancel_all(queue="mail").matched == 0
    outcome = cue.cancel_all(queue="mail", state="dispatched", running=True)
    assert outcome.changed == 1
    assert cue.job(taken).cancel_requested


def test_jobs_are_run_moved_and_given_another_priority(cue: HandDriven) -> None:
    add(cue, 3, delay=60)
    assert cue.run_all(queue="mail").changed == 3
    assert cue.run_all(queue="mail").changed == 0
    assert cue.move_all(queue="mail", to="post").changed == 3
    assert cue.reprioritise_all(queue="post", priority=4).changed == 3
    assert {(job.due_at, job.priority) for job in cue.jobs(queue="post")} == {
        (to_datetime(cue.clock.now()), 4)
    }


def test_a_handler_that_fails_at_once_is_not_retried_for_ever(cue: HandDriven) -> None:
    cue.set_queue("mail", max_attempts=1)
    tries = []

    @cue.handler("mail")
    def fail(job: object) -> None:
        tries.append(job)
        raise ValueError("no")

    add(cue, 3)
    cue.run_due()
    assert len(tries) == 3

    def work(_: BulkOutcome) -> None:
        cue.clock.advance(1)
        cue.run_due()

    outcome = cue.retry_all(queue="mail", progress=work)
    assert (outcome.changed, len(tries)) == (3, 6)
    first = cue.retry_all(queue="mail", limit=1, progress=work)
    rest = cue.retry_all(queue="mail", cursor=first.next_cursor, progress=work)
    assert (rest.changed, rest.next_cursor, len(tries)) == (2, None, 9)


def test_keys_that_are_taken_are_counted(cue: HandDriven) -> None:
    cue.schedule(queue="mail", key="k", delay=60)
    cue.schedule(queue="post", key="k", delay=60)
    outcome = cue.move_all(queue="mail", to="post")
    assert (outcome.matched, outcome.changed, outcome.key_taken) == (1, 0, 1)


def test_no_filter_at_all_is_refused_unless_everything_is_meant(cue: HandDriven) -> None:
    add(cue, 3, delay=60)
    with pytest.raises(InvalidInput, match="everything") as refused:
        cue.cancel_all()
    assert refused.value.pointer == "/filter"
    assert cue.cancel_all(everything=True).changed == 3


@pytest.mark.parametrize(
    ("verb", "options", "pointer"),
    [
        ("cancel_all", {"state": "succeeded"}, "/state"),
        ("cancel_all", {"state": "executing"}, "/state"),
        ("retry_all", {"state": "scheduled"}, "/state"),
        ("run_all", {"state": "nonsense"}, "/state"),
        ("run_all", {"queue": "no such"}, "/queue"),
        ("run_all", {"owner": ""}, "/owner"),
        ("run_all", {"queue": "mail", "limit": 0}, "/limit"),
        ("run_all", {"queue": "mail", "cursor": "nonsense"}, "/cursor"),
        ("run_all", {"queue": "mail", "colour": "red"}, "/colour"),
        ("move_all", {"queue": "mail", "to": "no such"}, "/to"),
        ("reprioritise_all", {"queue": "mail", "priority": 10}, "/priority"),
    ],
)
def test_what_is_wrong_is_named_before_anything_changes(
    cue: HandDriven, verb: str, options: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        getattr(cue, verb)(**options)
    assert refused.value.pointer == pointer


def test_windows_of_due_time_are_half_open(cue: HandDriven) -> None:
    for delay in (10, 20, 30):
        cue.schedule(queue="mail", delay=delay)
    now = to_datetime(cue.clock.now())
    window: dict[str, Any] = {
        "due_after": now + timedelta(seconds=10),
        "due_before": now + timedelta(seconds=30),
    }
    assert cue.cancel_all(**window).changed == 2


@pytest.mark.parametrize("text", ["", "a", "====", "5", "5_", "_a", "ü", "MTgwMC5b", "x" * 500])
def test_a_text_that_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not a cursor"):
        BulkCursor.read(text)


def test_a_cursor_is_read_as_it_was_written() -> None:
    for place in ((7, "a-b_C"), ("waiting", "q.1", 19, 7, "")):
        cursor = BulkCursor(5, cursor_at(place))
        assert BulkCursor.read(str(cursor)) == cursor
        assert place_at(cursor.after, (int, str), (str, str, int, int, str)) == place
