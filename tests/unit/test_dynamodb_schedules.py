"""Schedules in DynamoDB: late indexes and requests, what stands apart, what is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from oncue.clock import FakeClock
from oncue.core.moment import LATEST, Moment, to_datetime
from oncue.core.recurrence import OUTCOMES_KEPT, Fate, Outcome, begun
from oncue.core.schedule import Progress, Schedule, check_schedule, occurrence_id, occurrence_job
from oncue.ports.schedules import Advance
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.schedules import FITS
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.dynamodb.table import Table
from tests.contract.recurring import delete_schedule, put_schedule
from tests.stores.dynamo import OwnTable, new_table
from tests.stores.overheard import OverheardClient

SECOND = 1000


class Desk:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.client = OverheardClient()
        table = new_table()
        self.store = OwnTable(Table(table.name, lambda: self.client), self.clock)

    @property
    def now(self) -> Moment:
        return self.clock.now()

    def put(self, name: str = "s", **settings: Any) -> Schedule:
        given = {"queue": "q", "every_seconds": 60, **settings}
        wanted = begun(check_schedule(Schedule(name, **given)), self.now)
        stored = put_schedule(self.store, None, wanted, self.now)
        assert stored is not None
        return stored

    def seen(self, name: str = "s") -> Schedule:
        found = self.store.schedule(name)
        assert found is not None
        return found

    def made(self, schedule: Schedule, moments: list[Moment]) -> Advance:
        """Jobs at these moments, and on to a minute later."""
        jobs = [occurrence_job(schedule, at, self.now) for at in moments]
        outcomes = [self.created(schedule.name, at) for at in moments]
        progress = Progress(moments[-1] + 60_000, moments[-1] + 45_000, moments[-1], jobs[-1].id)
        return Advance(schedule, schedule, jobs, outcomes, (), progress)

    def created(self, name: str, at: Moment) -> Outcome:
        when, decided = to_datetime(at), to_datetime(self.now)
        return Outcome(Fate.CREATED, when, when, decided, job_id=occurrence_id(name, at))

    def left(self, name: str = "s") -> list[dict[str, Any]]:
        """Every item of this schedule."""
        items, _ = self.store.table.scan(None, 1000)
        of_it = {f"c#{name}": True, keys.SCHEDULES: False}
        return [item for item in items if of_it.get(item["pk"], item["sk"] == name)]


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.store.close()


def test_an_index_that_is_late_only_delays(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.put("a")
    with monkeypatch.context() as patched:
        patched.setattr(desk.store.table, "look", lambda *_, **__: iter(()))
        assert list(desk.store.waking(LATEST, 1)) == []
    assert [one.name for one in desk.store.waking(LATEST, 1)] == ["a"]


def test_entries_of_schedules_that_went_on_do_not_push_out_those_that_are_due(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved, gone, due = desk.put("moved"), desk.put("gone"), desk.put("zzz")
    wakes_at = due.progress.wake_at
    assert wakes_at is not None
    stale = [keys.wake(one.name, wakes_at) for one in (moved, gone, due)]
    later = Progress(wakes_at + SECOND, wakes_at + SECOND)
    assert not desk.store.advance([Advance(moved, moved, progress=later)], desk.now)
    assert delete_schedule(desk.store, gone, desk.now)

    def look(pk: str, above: str, upto: str, *, limit: int) -> Iterator[str]:
        chosen = [one for one in stale if one.look == pk and above < one.at <= upto]
        return iter([one.at for one in sorted(chosen)[:limit]])

    monkeypatch.setattr(desk.store.table, "look", look)
    assert [one.name for one in desk.store.waking(LATEST, 1)] == ["zzz"]
    assert [one.name for one in desk.store.waking(LATEST, 9)] == ["zzz", "moved"]
    assert [one.name for one in desk.store.waking(wakes_at, 9)] == ["zzz"]


def test_a_late_request_does_not_bring_back_a_schedule_that_was_deleted(desk: Desk) -> None:
    made = desk.put()
    [creation] = desk.client.requests("transact_write_items")
    assert delete_schedule(desk.store, made, desk.now)
    del creation["ClientRequestToken"]  # the service has forgotten it
    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        desk.client.transact_write_items(**creation)
    assert desk.store.schedule("s") is None
    again = desk.put()
    assert again.revision > made.revision


def test_of_a_deleted_schedule_only_its_version_stays_for_a_day(desk: Desk) -> None:
    desk.put(payload_json=b'"%s"' % (b"x" * 5000))
    for n in range(5):
        moments = [desk.now + (n * FITS + i) * SECOND for i in range(FITS)]
        assert not desk.store.advance([desk.made(desk.seen(), moments)], desk.now)
    assert len(desk.left()) > 5
    assert delete_schedule(desk.store, desk.seen(), desk.now)
    [head] = desk.left()
    assert set(head) == {"pk", "sk", "ver", "ttl", "by"}
    assert head["ttl"] == -(-(desk.now + 86_400_000) // 1000)
    assert list(desk.store.outcomes("s")) == []


def test_a_crash_after_the_deletion_leaves_nothing_to_be_seen(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = desk.put(payload_json=b'"%s"' % (b"x" * 5000))
    with monkeypatch.context() as crashing:
        crashing.setattr(desk.store.table, "write", _crash)
        with pytest.raises(KeyboardInterrupt):
            delete_schedule(desk.store, first, desk.now)
    assert desk.store.schedule("s") is None
    assert list(desk.store.schedules(None, 9)) == []
    assert desk.put(payload_json=b"1").payload == 1


def _crash(puts: Any = (), removed: Any = ()) -> None:
    if list(removed):
        raise KeyboardInterrupt


def test_a_large_payload_stands_apart_and_follows_the_settings(desk: Desk) -> None:
    large = [b'"%s"' % (letter * 200_000) for letter in (b"x", b"y")]
    first = desk.put(payload_json=large[0])
    assert desk.store.schedule("s") == first
    desk.client.asked.clear()
    assert not desk.store.advance([desk.made(first, [desk.now])], desk.now)
    assert desk.seen().payload_json == large[0]
    heads = [item for item in desk.left() if item["sk"] == keys.HEAD]
    assert len(str(heads)) < 1024
    second = put_schedule(
        desk.store, desk.seen(), replace(desk.seen(), payload_json=large[1]), desk.now
    )
    assert second is not None
    assert second.payload_json == large[1]
    assert len([item for item in desk.left() if "payload" in item]) == 1


def test_of_two_changes_at_the_same_moment_none_writes_over_the_payload_of_the_other(
    desk: Desk,
) -> None:
    """The second one dies between its payload and its head."""
    mine, other = (b'"%s"' % (letter * 1000) for letter in (b"x", b"y"))
    first = desk.put()
    dying = OverheardClient()
    node = DynamoStore(Table(desk.store.table.name, lambda: dying), desk.clock)

    def die(method: str, asked: Any) -> None:
        if method == "put_item":
            raise KeyboardInterrupt

    def meet(method: str, asked: Any) -> None:
        if method == "put_item":
            desk.client.before = lambda *_: None
            with pytest.raises(KeyboardInterrupt):
                put_schedule(node, first, replace(first, payload_json=other), desk.now)

    dying.before, desk.client.before = die, meet
    then = put_schedule(desk.store, first, replace(first, payload_json=mine), desk.now)
    assert then is not None
    assert then.payload_json == mine


def test_a_schedule_without_its_payload_waits_and_the_others_go_on(desk: Desk) -> None:
    """Somebody deleted it."""
    large = b'"%s"' % (b"x" * 1000)
    desk.put(payload_json=large)
    other = desk.put("other", payload_json=large)
    [item] = [item for item in desk.left() if item["sk"].startswith("payload")]
    desk.store.table.write(removed=[keys.Key(item["pk"], item["sk"])])
    assert desk.seen().paused
    for payload in (desk.seen().payload_json, b"1"):  # resumed, and set again
        assert desk.store.waking(LATEST, 9) == [other]
        wanted = replace(desk.seen(), payload_json=payload, paused=False)
        assert put_schedule(desk.store, desk.seen(), wanted, desk.now) is not None
    assert desk.seen().payload == 1
    assert len(desk.store.waking(LATEST, 9)) == 2


def test_a_change_that_is_refused_leaves_no_payload(desk: Desk) -> None:
    first = desk.put()
    changed = replace(first, payload_json=b'"%s"' % (b"x" * 1000))

    def meet(method: str, asked: Any) -> None:
        if method == "put_item":
            desk.client.before = lambda *_: None
            assert put_schedule(desk.store, first, replace(first, owner="ada"), desk.now)

    desk.client.before = meet
    assert put_schedule(desk.store, first, changed, desk.now) is None
    assert [item["sk"] for item in desk.left() if item["pk"] == "c#s"] == [keys.HEAD]


def test_one_change_can_make_and_withdraw_as_many_jobs_as_the_store_says(desk: Desk) -> None:
    schedule = desk.put(every_seconds=1)
    first = [desk.now + n * SECOND for n in range(1, FITS + 1)]
    assert not desk.store.advance([desk.made(schedule, first)], desk.now)
    gone = [replace(desk.created("s", at), fate=Fate.WITHDRAWN) for at in first]
    second = [at + FITS * SECOND for at in first]
    both = desk.made(desk.seen(), second)._replace(withdrawn=gone)
    desk.client.asked.clear()
    assert not desk.store.advance([both], desk.now)
    [transaction] = desk.client.requests("transact_write_items")
    assert len(transaction["TransactItems"]) <= 100
    assert [desk.store.get(one.job_id or "") for one in gone] == [None] * FITS
    assert all(desk.store.get(occurrence_id("s", at)) for at in second)


def test_the_outcomes_of_any_number_of_pages_are_the_last_ones_in_order(desk: Desk) -> None:
    desk.put()
    every = [desk.created("s", desk.now + n) for n in range(400)]
    for n in range(len(every)):
        seen = desk.seen()
        on = Progress(desk.now + n + SECOND, desk.now + n + SECOND)
        assert not desk.store.advance([Advance(seen, seen, (), [every[n]], (), on)], desk.now)
        kept = desk.store.outcomes("s") if n % 50 == 49 else every[: n + 1][-OUTCOMES_KEPT:]
        assert list(kept) == every[: n + 1][-OUTCOMES_KEPT:]
    assert len(desk.left()) <= 2 + keys.OUTCOME_PAGES


def test_a_job_that_was_withdrawn_and_made_again_is_in_the_record_twice(desk: Desk) -> None:
    desk.put()
    at = desk.now + SECOND
    made, gone = desk.created("s", at), replace(desk.created("s", at), fate=Fate.WITHDRAWN)
    for n in range(20):
        assert not desk.store.advance([desk.made(desk.seen(), [at])], desk.now)
        assert list(desk.store.outcomes("s")) == [*[gone] * n, made]
        back = Advance(desk.seen(), desk.seen(), withdrawn=[gone], progress=Progress(at, at))
        assert not desk.store.advance([back], desk.now)
        assert list(desk.store.outcomes("s")) == [gone] * (n + 1)


def test_a_waiting_item_that_comes_late_does_not_bring_back_a_withdrawn_job(desk: Desk) -> None:
    schedule, at = desk.put(), desk.now + SECOND
    assert not desk.store.advance([desk.made(schedule, [at])], desk.now)
    waiting = [item for item in desk.store.table.scan(None, 1000)[0] if item["pk"][0] == "w"]
    gone = replace(desk.created("s", at), fate=Fate.WITHDRAWN)
    back = Advance(desk.seen(), desk.seen(), withdrawn=[gone], progress=Progress(at, at))
    assert not desk.store.advance([back], desk.now)
    desk.store.table.write(waiting)
    [record] = desk.store.table.read([keys.job(occurrence_id("s", at))]).values()
    assert desk.store.get(occurrence_id("s", at)) is None
    assert record["ttl"] * 1000 >= desk.now + 86_400_000


def test_many_schedules_that_go_on_share_requests(desk: Desk) -> None:
    seen = [desk.put(f"s{n}") for n in range(50)]
    assert not desk.store.advance([desk.made(desk.put("first"), [desk.now])], desk.now)
    desk.client.asked.clear()
    assert not desk.store.advance([desk.made(one, [desk.now]) for one in seen], desk.now)
    assert len(desk.client.asked) == 3, "all heads, and two transactions"
    desk.client.asked.clear()
    assert len(desk.store.waking(LATEST, 50)) == 50
    assert len(desk.client.asked) == keys.WAKE_SHARDS + 2, "the index, heads, last jobs"


def test_another_process_sees_what_this_one_wrote(desk: Desk) -> None:
    first = desk.put()
    other = DynamoStore(Table(desk.store.table.name, lambda: desk.client), desk.clock)
    assert other.schedule("s") == first
    on = desk.made(first, [desk.now + SECOND])
    assert not other.advance([on], desk.now)
    assert desk.store.advance([on], desk.now) == [0]
