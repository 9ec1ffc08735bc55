"""The dump: what goes out of one store comes into another, or is refused by its line."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oncue.clock import FakeClock
from oncue.core.dumped import DumpedJob
from oncue.core.errors import InvalidInput, KeyTaken
from oncue.core.job import Attempt
from oncue.core.moment import from_datetime
from oncue.core.queue import Queue, default_queue
from oncue.ports.store import Store
from oncue.scheduler import Scheduler
from oncue.stores.memory import MemoryStore
from oncue.stores.sqlite import SqliteStore
from oncue.transfer import dump
from oncue.transfer.checks import check_job, check_part
from oncue.transfer.restore import Restore, Restored
from oncue.usecases.queues import put_queue, set_paused
from oncue.wire.dump import DumpCounts, JobLine, decode, encode
from tests.contract.board import Board, cron_at
from tests.contract.desk import Desk
from tests.contract.promises import exported
from tests.contract.test_transfer import busy, lived_in
from tests.kept.__main__ import fill


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def house(clock: FakeClock) -> Desk:
    """A store with one job of every kind."""
    desk = Desk(MemoryStore(clock), clock)
    lived_in(desk)
    mail = Queue("mail", "log:", max_attempts=7, rate_per_second=2.5, concurrency=4, poison_after=9)
    put_queue(desk.store, replace(mail, retention_seconds=None))
    set_paused(desk.store, "mail", True)
    return desk


def dumped(desk: Desk, queue: str | None = None) -> bytes:
    out = io.BytesIO()
    dump.Dump(desk.store, out, queue).write()
    return out.getvalue()


def restored(text: bytes, store: MemoryStore, *, dry_run: bool = False) -> Restored:
    return Restore(store, dry_run=dry_run).read(io.BytesIO(text))


def crowded(clock: FakeClock, count: int = 120) -> Desk:
    desk = Desk(MemoryStore(clock), clock)
    for n in range(count):
        desk.add(f"job-{n:04}", due_in=n)
    return desk


def lines_of(text: bytes) -> list[bytes]:
    return text.splitlines(keepends=True)


def jobs_in(text: bytes) -> list[bytes]:
    return [line for line in lines_of(text) if line.startswith(b'{"job":')]


# -- lines -----------------------------------------------------------------------------------------


def again(dumped: DumpedJob) -> DumpedJob:
    text = encode(JobLine.of_dumped(dumped))
    assert text.count(b"\n") == 1
    line = decode(text)
    assert isinstance(line, JobLine)
    check_part("job", line, from_datetime(dumped.job.created_at))
    return check_job(line.dumped())


def test_every_kind_of_job_comes_out_as_it_went_in(house: Desk) -> None:
    for dumped in exported(house.store):
        assert again(dumped) == dumped


def test_a_rule_and_an_instant_come_out_to_the_microsecond(house: Desk) -> None:
    instant = datetime(2021, 1, 1, 12, 30, 0, 123_456, tzinfo=UTC)
    (some,) = house.store.export(None, 1).items
    fired = replace(some, job=some.job._replace(rule="hourly", instant=instant))
    assert again(fired) == fired


@pytest.mark.parametrize(
    "payload",
    [
        b'{"a":1}',
        b'{"a": 1, "b": [ 2 ]}',
        b'{"a":\n1}',
        b" 1 ",
        b"null",
        "\u2028é".join('""').encode(),
    ],
)
def test_payloads_and_results_keep_every_byte(house: Desk, payload: bytes) -> None:
    (dumped,) = [d for d in exported(house.store) if d.job.id == "succeeded"]
    job = dumped.job._replace(payload_json=payload, result_json=payload)
    assert again(replace(dumped, job=job)).job == job


@pytest.mark.parametrize("body", [b"not json", b"\xff\xfe", b""])
def test_what_is_not_json_is_refused(house: Desk, body: bytes) -> None:
    (dumped,) = [d for d in exported(house.store) if d.job.id == "succeeded"]
    wrong: list[dict[str, Any]] = [{"payload_json": body}, {"result_json": body}]
    for fields in wrong:
        with pytest.raises(InvalidInput, match="is not JSON"):
            again(replace(dumped, job=dumped.job._replace(**fields)))


def test_an_id_or_a_label_that_nobody_could_have_chosen_is_refused(house: Desk) -> None:
    (dumped,) = [d for d in exported(house.store) if d.job.id == "waiting"]
    wrong: list[dict[str, Any]] = [{"id": "a\nb"}, {"owner": "\x1b[2J"}, {"key": ""}]
    for fields in wrong:
        with pytest.raises(InvalidInput):
            again(replace(dumped, job=dumped.job._replace(**fields)))


def test_a_payload_stands_in_its_line_as_json(house: Desk) -> None:
    (dumped,) = [d for d in exported(house.store) if d.job.id == "waiting"]
    job = dumped.job._replace(payload_json=b'{"to":"ada"}')
    line = msgspec.json.decode(encode(JobLine.of_dumped(replace(dumped, job=job))))
    assert line["job"]["payload"] == {"to": "ada"}
    assert line["job"]["due_at"].endswith("Z")


def test_an_attempt_names_its_epoch_even_if_a_sink_had_the_job(house: Desk) -> None:
    """Restores of format 1 ask for it."""
    (dumped,) = [d for d in exported(house.store) if d.job.id == "waiting"]
    at = dumped.job.created_at
    sent = Attempt(1, 0, at, worker="a", outcome="succeeded", ended_at=at)
    history = replace(dumped.history, attempts=(sent,))
    line = msgspec.json.decode(encode(JobLine.of_dumped(replace(dumped, history=history))))
    assert line["job"]["attempts"][0]["epoch"] == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"state": "done"}, "state"),
        ({"state": "succeeded"}, "without finished_at"),
        ({"state": "executing"}, "its last attempt is over"),
        ({"cancel_requested": True}, "a cancel was requested"),
        ({"attempt_base": 5}, "attempt_base"),
        ({"due_at": "tomorrow"}, "'tomorrow' is not an RFC 3339 time"),
        ({"due_at": "2026-01-01T00:00:00"}, "with an offset"),
        ({"queue": "no/queue"}, "a queue name"),
        ({"priority": 10}, "priority"),
        ({"surprise": 1}, "surprise"),
        ({"id": ""}, "id"),
        ({"payload": ...}, "no payload"),
    ],
)
def test_a_job_that_cannot_have_been_is_refused_by_its_line(
    clock: FakeClock, change: dict[str, object], said: str
) -> None:
    lines = lines_of(dumped(crowded(clock, 2)))
    job = msgspec.json.decode(lines[2])
    job["job"] |= change
    job["job"] = {name: value for name, value in job["job"].items() if value is not ...}
    lines[2] = msgspec.json.encode(job) + b"\n"
    store = MemoryStore(clock)
    with pytest.raises(InvalidInput, match=f"(?s)line 3: .*{said}"):
        restored(b"".join(lines), store)
    assert exported(store) == []


# -- there and back --------------------------------------------------------------------------------


def test_a_whole_store_moves(house: Desk, clock: FakeClock) -> None:
    store = MemoryStore(clock)
    result = restored(dumped(house), store)
    assert exported(store) == exported(house.store)
    assert result.stored == len(exported(store))
    settings = {queue.name: replace(queue, paused=False) for queue in store.queues()}
    assert settings == {queue.name: replace(queue, paused=False) for queue in house.store.queues()}


def test_a_queue_whose_jobs_would_be_lost_is_not_released(clock: FakeClock) -> None:
    """Its sink only marks jobs, and this store has no stream that tells anybody."""
    desk = Desk(MemoryStore(clock), clock)
    desk.add("job", queue="tasks")
    put_queue(desk.store, Queue("tasks", "stream:log:", completion="worker"))
    target = MemoryStore(clock)
    restore = Restore(target)
    restore.read(io.BytesIO(dumped(desk)))
    restore.release()
    assert "tasks" in restore.result.paused
    with Scheduler(target) as cue:
        with pytest.raises(InvalidInput, match="a stream sink needs a DynamoDB table"):
            cue.resume("tasks")
        assert cue.queue("tasks").paused
        cue.set_queue("tasks", sink="log:", completion="worker")
        cue.resume("tasks")
        assert not cue.queue("tasks").paused


def test_restored_queues_stay_paused_until_they_are_released(house: Desk, clock: FakeClock) -> None:
    store = MemoryStore(clock)
    restore = Restore(store)
    restore.read(io.BytesIO(dumped(house)))
    assert all(queue.paused for queue in store.queues())
    restore.release()
    assert [queue.name for queue in store.queues() if queue.paused] == ["mail"]
    assert restore.result.paused == ["mail"]


def test_a_queue_known_only_by_its_jobs_is_paused_too(clock: FakeClock) -> None:
    lines = lines_of(dumped(crowded(clock, 1)))
    text = b"".join([lines[0], lines[2], encode(DumpCounts(1, 0))])
    store = MemoryStore(clock)
    assert restored(text, store).paused == ["q"]
    assert store.queues()[0].paused


def test_what_is_there_already_is_left_alone(house: Desk, clock: FakeClock) -> None:
    store = MemoryStore(clock)
    put_queue(store, Queue("mail", max_attempts=2))
    text = dumped(house)
    first, second = restored(text, store), restored(text, store)
    assert (second.stored, second.existing) == (0, first.stored)
    assert first.kept_queues == second.kept_queues == ["mail"]
    assert {queue.name: queue.max_attempts for queue in store.queues()}["mail"] == 2


def test_a_dry_run_counts_and_stores_nothing(house: Desk, clock: FakeClock) -> None:
    store = MemoryStore(clock)
    result = restored(dumped(house), store, dry_run=True)
    assert result.stored == len(exported(house.store))
    assert exported(store) == []
    assert store.queues() == []


def test_one_queue_can_be_dumped_alone(house: Desk, clock: FakeClock) -> None:
    store = MemoryStore(clock)
    restored(dumped(house, "d"), store)
    assert {d.job.id for d in exported(store)} == {"covered", "put-off"}
    assert [queue.name for queue in store.queues()] == ["d"]


def test_a_key_that_is_taken_is_told_with_the_lines(house: Desk, clock: FakeClock) -> None:
    store = MemoryStore(clock)
    Desk(store, clock).add("mine", key="k")
    with pytest.raises(KeyTaken, match=r"lines .* job waiting: .* first\.$"):
        restored(dumped(house), store, dry_run=True)
    assert [one.job.id for one in exported(store)] == ["mine"]
    with pytest.raises(KeyTaken, match=r"lines .* job waiting: .* A part of these lines may be"):
        restored(dumped(house), store)
    assert len(exported(store)) > 1  # the jobs before it


def test_a_store_that_is_not_there_is_made_when_the_first_page_has_been_understood(
    house: Desk, clock: FakeClock
) -> None:
    text, made = dumped(house), list[MemoryStore]()

    def create() -> MemoryStore:
        made.append(MemoryStore(clock))
        return made[-1]

    garbage = io.BytesIO(lines_of(text)[0] + b"garbage\n")
    with pytest.raises(InvalidInput):
        Restore(MemoryStore(clock), create=create).read(garbage)
    assert made == []
    Restore(MemoryStore(clock), create=create).read(io.BytesIO(text))
    [store] = made
    assert exported(store) == exported(house.store)
    assert {queue.name for queue in store.queues()} == {
        queue.name for queue in house.store.queues()
    }


# -- torn ------------------------------------------------------------------------------------------


def test_a_dump_has_marks_to_go_on_from(clock: FakeClock) -> None:
    marks = [line for line in lines_of(dumped(crowded(clock))) if line.startswith(b'{"mark":')]
    assert [msgspec.json.decode(mark)["mark"]["jobs"] for mark in marks] == [50]


@pytest.mark.slow
def test_wherever_it_was_torn_a_dump_goes_on_to_the_same_end(clock: FakeClock) -> None:
    desk = crowded(clock)
    whole = dumped(desk)
    for cut in [*range(0, len(whole), 997), *range(len(whole) - 200, len(whole))]:
        file = io.BytesIO(whole[:cut])
        since = dump.interrupted(file)
        assert since.complete is None
        file.truncate(since.size)
        file.seek(since.size)
        counts = dump.Dump(desk.store, file).write(since)
        assert jobs_in(file.getvalue()) == jobs_in(whole)
        assert counts == DumpCounts(120, 1)
        restored(file.getvalue(), MemoryStore(clock))


def test_a_whole_dump_is_known_to_be_complete(clock: FakeClock) -> None:
    found = dump.interrupted(io.BytesIO(dumped(crowded(clock))))
    assert found.complete == DumpCounts(120, 1)


def test_other_files_are_not_taken_for_an_interrupted_dump() -> None:
    for text in (b"a letter to my mother", b'{"header":{"format":"tar"}}\n', b"[]\n"):
        with pytest.raises(InvalidInput, match="not a dump"):
            dump.interrupted(io.BytesIO(text))


def test_a_torn_dump_is_noticed_wherever_it_was_torn(clock: FakeClock) -> None:
    whole = dumped(crowded(clock))
    header = len(lines_of(whole)[0])
    for cut in [*range(header, len(whole), 997), *range(len(whole) - 50, len(whole))]:
        with pytest.raises(InvalidInput, match="torn"):
            restored(whole[:cut], MemoryStore(clock))


def test_a_missing_line_is_noticed(clock: FakeClock) -> None:
    lines = lines_of(dumped(crowded(clock)))
    del lines[17]
    with pytest.raises(InvalidInput, match=r"should have 120 jobs .* has 119"):
        restored(b"".join(lines), MemoryStore(clock))


def test_what_follows_the_end_is_refused(clock: FakeClock) -> None:
    whole = dumped(crowded(clock, 3))
    with pytest.raises(InvalidInput, match="line 7: something follows the end"):
        restored(whole + whole, MemoryStore(clock))


def test_of_a_page_with_a_bad_line_nothing_is_stored(clock: FakeClock) -> None:
    lines = lines_of(dumped(crowded(clock)))
    lines[100] = b'{"job":{"id":"half"\n'
    store = MemoryStore(clock)
    with pytest.raises(InvalidInput, match=r"line 101: .* Jobs stored so far: 50\."):
        restored(b"".join(lines), store)
    assert len(exported(store)) == 50


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"hello\n", "line 1: is not a dump of oncue"),
        (b"{}\n", "line 1: is not a dump of oncue"),
        (b'{"header":{"format":"oncue-dump","version":"x"}}\n', "is not a dump"),
        (b"\xff\xfe\n", "is not a dump"),
        (b"", "torn"),
        (
            b'{"header":{"format":"oncue-dump","version":99,"oncue":"7.0","new":1}}\n',
            "format 99, but this oncue reads only up to 1. Upgrade oncue to at least 7.0",
        ),
    ],
)
def test_what_is_no_dump_or_too_new_is_refused(clock: FakeClock, text: bytes, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        restored(text, MemoryStore(clock))


# -- the whole store -------------------------------------------------------------------------------


def furnish(cue: Scheduler, clock: FakeClock) -> None:
    """Something of every kind that a store can hold."""
    fill(cue, clock)
    board = Board(cue.store, clock)
    busy(board)
    board.post(cron_at(30, event_id="the same under another id"))


def moved(source: Store, target: Store) -> Restored:
    out = io.BytesIO()
    dump.Dump(source, out).write()
    restore = Restore(target)
    result = restore.read(io.BytesIO(out.getvalue()))
    restore.release()
    return result


def body(store: Store) -> list[bytes]:
    """The dump of a store without its header, which tells the time and the place."""
    out = io.BytesIO()
    dump.Dump(store, out).write()
    return lines_of(out.getvalue())[1:]


def test_everything_moves_from_sqlite_to_memory_and_back(tmp_path: Path, clock: FakeClock) -> None:
    source, back = SqliteStore(tmp_path / "a.db", clock), SqliteStore(tmp_path / "b.db", clock)
    with Scheduler(source, clock=clock) as cue, Scheduler(back, clock=clock):
        furnish(cue, clock)
        memory = MemoryStore(clock)
        result = moved(source, memory)
        kinds = {line.split(b'"')[1] for line in body(source)}
        assert kinds == {b"queue", b"schedule", b"rule", b"event", b"job", b"end"}
        assert (result.schedules, result.rules) == (3, 4)
        assert result.events == len(list(cue.events()))
        moved(memory, back)
        for store in (memory, back):
            assert [line for line in body(store) if not line.startswith(b'{"queue"')] == [
                line for line in body(source) if not line.startswith(b'{"queue"')
            ]
            assert store.queues() == source.queues()
        assert [queue.name for queue in back.queues() if queue.paused] == ["held"]


def test_a_schedule_makes_the_same_job_after_the_move(tmp_path: Path, clock: FakeClock) -> None:
    with Scheduler(MemoryStore(clock), clock=clock) as here:
        here.every(600, name="often", queue="beats", payload={"n": 1})
        clock.advance(601)
        assert here.engine.recurrer.step() is not None
        with Scheduler(SqliteStore(tmp_path / "b.db", clock), clock=clock) as there:
            moved(here.store, there.store)
            assert there.schedule_named("often").progress == here.schedule_named("often").progress
            assert there.schedule_outcomes("often") == list(here.schedule_outcomes("often"))
            clock.advance(600)
            for cue in (here, there):
                while cue.engine.recurrer.step() == 0.0:
                    pass
            assert [job.id for job in there.jobs()] == [job.id for job in here.jobs()]


def test_a_dry_run_counts_what_is_there_already(clock: FakeClock) -> None:
    with Scheduler(MemoryStore(clock), clock=clock) as cue:
        furnish(cue, clock)
        whole = b"".join([lines_of(dumped_store(cue.store))[0], *body(cue.store)])
        nothing = Restore(cue.store, dry_run=True).read(io.BytesIO(whole))
        assert (nothing.queues, nothing.schedules, nothing.rules, nothing.events) == (0, 0, 0, 0)
        everything = Restore(MemoryStore(clock), dry_run=True).read(io.BytesIO(whole))
        real = MemoryStore(clock)
        assert everything == restored(whole, real)
        assert list(real.rules(None, 10)) == list(cue.rules())


def dumped_store(store: Store) -> bytes:
    out = io.BytesIO()
    dump.Dump(store, out).write()
    return out.getvalue()


def test_decisions_of_a_rule_that_is_another_one_here_do_not_move(clock: FakeClock) -> None:
    table = {"type": "TABLE", "resourceId": "orders", "lifeDuration": 60}
    event = {
        "eventType": "TABLE",
        "eventResourceId": "orders",
        "eventTimestamp": "2021-01-01 00:00:00",
    }
    with (
        Scheduler(MemoryStore(clock), clock=clock) as here,
        Scheduler("memory:", clock=clock) as there,
    ):
        here.put_rule("load", [table])
        here.publish(event)
        clock.advance(1)
        there.put_rule("load", [table])
        result = moved(here.store, there.store)
        assert (result.rules, result.events, result.kept_rules) == (0, 1, ["load"])
        [answer] = there.publish(event)
        assert [one.decision for one in answer.decisions] == ["ACCEPTED"]


@pytest.mark.parametrize("earlier", [False, True])
def test_a_torn_dump_with_events_goes_on_to_the_same_end(
    monkeypatch: pytest.MonkeyPatch, clock: FakeClock, *, earlier: bool
) -> None:
    """Also one of an earlier version, whose marks had the event as a number."""
    monkeypatch.setattr(dump, "PAGE", 2)  # so that a few events are several pages
    with Scheduler(MemoryStore(clock), clock=clock) as cue:
        furnish(cue, clock)
        whole = dumped_store(cue.store)
        marks = [
            n for n, line in enumerate(lines_of(whole)) if line.startswith(b'{"mark":{"jobs":0')
        ]
        assert len(marks) > 1
        for count in marks:
            begun = b"".join(lines_of(whole)[: count + 2])
            if earlier:
                begun = re.sub(rb'"event":"([0-9]+)"', rb'"event":\1', begun)
            file = io.BytesIO(begun)
            since = dump.interrupted(file)
            file.truncate(since.size)
            file.seek(since.size)
            dump.Dump(cue.store, file).write(since)
            assert lines_of(file.getvalue())[count + 1 :] == lines_of(whole)[count + 1 :]


def test_a_queue_that_came_during_the_dump_is_in_it(clock: FakeClock) -> None:
    store = MemoryStore(clock)
    desk = Desk(store, clock)
    for n in range(60):
        desk.add(f"job-{n:04}")
    out = io.BytesIO()
    late = replace(default_queue("late"), paused=True)
    dump.Dump(store, out, notify=lambda counts, size: put_queue(store, late)).write()
    assert b'{"queue":{"name":"late"' in out.getvalue()
    restored(out.getvalue(), MemoryStore(clock))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b'"known":[{', b'"known":[{},{', "what it knows of each dependency"),
        (b'"lastJobId":"', b'"lastJobId":null,"x":"', "unknown field"),
        (b'"accepted":[', b'"accepted":[7,', "has no such decision"),
        (b'"cron":"0 9 * * *"', b'"cron":"9 * *"', "cron"),
        (b'"eventType":"FILE"', b'"eventType":"FIRE"', "Invalid enum value"),
    ],
)
def test_a_rule_event_or_schedule_that_cannot_be_is_refused_by_its_line(
    clock: FakeClock, old: bytes, new: bytes, said: str
) -> None:
    with Scheduler(MemoryStore(clock), clock=clock) as cue:
        furnish(cue, clock)
        whole = dumped_store(cue.store)
    assert old in whole
    with pytest.raises(InvalidInput, match=rf"line \d+: .*{said}"):
        restored(whole.replace(old, new, 1), MemoryStore(clock))
