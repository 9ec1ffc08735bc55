"""`oncue.aws.dispatch`, invoked as EventBridge and Lambda would: seed 000's setting."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from oncue.aws import sandbox
from oncue.clock import FakeClock
from oncue.core import recurrence
from oncue.core.errors import InvalidInput, StoreUnavailable
from oncue.core.lifecycle import State
from oncue.core.moment import parse
from oncue.engine import dispatcher, tick
from oncue.engine.alarm import Alarm
from oncue.ports.inbox import InboxSettings
from oncue.sinks.memory import MemorySink, named
from oncue.stores.dynamodb.filed import Filed
from oncue.stores.dynamodb.inbox_batch import FoundBatch
from tests.aws.stack import START, STORE, Context, Stack, metrics_in

SAMPLE_ITEM = {
    "pk": "j#2015-03-20T09:45",
    "sk": "2015-03-20T09:46:47.123Z#564ade05-efda-4a2e-a7db-933ad3c89a83",
    "detail": {
        "action": "send-reminder",
        "userId": "16f3a019-e3a5-47ed-8c46-f668347503d1",
        "taskId": "6d2f710d-99d8-49d8-9f52-92a56d0c6b81",
        "params": {"foo": "bar"},
    },
}
UNSHARDED = InboxSettings(shards=0)


@pytest.fixture
def inbox(stack: Stack) -> Stack:
    """Where other programs put items, in partitions without a shard."""
    stack.store.inbox.set(UNSHARDED, stack.now)
    return stack


def test_the_sample_item_and_the_sample_event_make_one_message(inbox: Stack) -> None:
    inbox.clock.set(parse("2015-03-20T09:47:18Z"))
    inbox.put(SAMPLE_ITEM)
    for _ in range(2):
        inbox.dispatch()
    [message] = inbox.received()
    assert json.loads(message["Body"]) == SAMPLE_ITEM["detail"]
    due = message["MessageAttributes"]["oncue-due-at"]["StringValue"]
    assert due == "2015-03-20T09:46:47.123Z"


@pytest.mark.parametrize("is_new", [True, False])
def test_an_event_names_partitions_that_were_passed_long_ago(inbox: Stack, is_new: bool) -> None:
    inbox.put(SAMPLE_ITEM)
    if not is_new:
        inbox.dispatch()
    assert inbox.sent == []
    for _ in range(2):
        inbox.dispatch(time="2015-03-20T09:51:18Z")
    assert len(inbox.sent) == 1
    [message] = inbox.received()
    assert json.loads(message["Body"]) == SAMPLE_ITEM["detail"]


@pytest.mark.parametrize("ahead_ms", [90_000, 89_001, 61_500, 500])
@pytest.mark.parametrize("how", ["job", "item"])
def test_what_is_due_before_the_next_tick_is_sent_with_the_delay_that_is_left(
    inbox: Stack, ahead_ms: int, how: str
) -> None:
    due_at = inbox.now + ahead_ms
    if how == "item":
        inbox.put_due("one", due_at)
    else:
        inbox.cue.schedule("x", delay=ahead_ms / 1000)
    inbox.dispatch()
    [entry] = inbox.sqs.entries
    arrives = inbox.now + 1000 * entry["DelaySeconds"]
    assert 0 <= arrives - due_at < 1000
    inbox.clock.advance(60)
    inbox.dispatch()
    assert len(inbox.sent) == 1


def test_a_queue_that_cannot_delay_is_given_nothing_early(fifo_stack: Stack) -> None:
    stack = fifo_stack
    stack.store.inbox.set(UNSHARDED, stack.now)
    stack.put_due("item", stack.now + 30_000)
    job = stack.cue.schedule("x", delay=30)
    stack.dispatch()
    assert stack.sent == []
    stack.clock.advance(60)
    stack.dispatch()
    assert stack.sent_ids == sorted(["item", job.id])
    assert not any("DelaySeconds" in entry for entry in stack.sqs.entries)


def test_everything_that_an_outage_left_is_delivered_in_due_order(inbox: Stack) -> None:
    inbox.dispatch()
    names = []
    for minutes in range(0, 180, 20):
        inbox.put_due(f"{minutes:03}", inbox.now + minutes * 60_000)
        names.append(f"{minutes:03}")
    inbox.clock.advance(3 * 3600)
    inbox.dispatch()
    assert [job_id for job_id, _ in inbox.sent] == names


def test_a_doubled_and_a_late_tick_send_nothing_more(inbox: Stack) -> None:
    inbox.cue.schedule_many({"payload": n} for n in range(30))
    inbox.put_due("item", inbox.now)
    event = inbox.event()
    for _ in range(2):
        inbox.invoke("dispatch", event)
    inbox.clock.advance(600)
    inbox.invoke("dispatch", event)
    assert len(inbox.sent) == len(set(inbox.sent)) == 31


def test_ticks_that_run_at_once_share_the_work(inbox: Stack) -> None:
    inbox.cue.schedule_many({"payload": n} for n in range(300))
    for n in range(50):
        inbox.put_due(f"item-{n}", inbox.now)
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda _: inbox.dispatch(), range(3)))
    inbox.clock.advance(60)
    inbox.dispatch()
    assert len(inbox.sent) == len(set(inbox.sent)) == 350


def test_a_tick_ends_before_its_time_and_the_next_goes_on(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "FIRST_LIMIT", 20)  # and four batches at once
    stack.cue.schedule_many({"payload": n} for n in range(200))
    context = Context(lambda: 0 if stack.sent else 60_000)
    assert stack.invoke("dispatch", context=context)["time_over"]
    assert 0 < len(stack.sent) < 200
    assert not stack.dispatch()["time_over"]
    assert len(stack.sent) == len(set(stack.sent)) == 200


class Killed(BaseException):
    """As if the sandbox had ended here."""


def test_what_was_sent_when_a_tick_was_killed_is_sent_again_with_the_same_attempt(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = stack.cue.schedule_many({"payload": n} for n in range(30)).ids

    def die(*args: object, **more: object) -> bool:
        raise Killed

    with monkeypatch.context() as dying:
        dying.setattr(type(stack.store), "settle_range", die)
        with pytest.raises(Killed):
            stack.dispatch()
    before = Counter(stack.sent_ids)
    assert before
    stack.clock.advance(120)
    stack.dispatch()
    stack.dispatch()
    assert Counter(stack.sent_ids) == Counter(ids) + before
    assert {attempt for _, attempt in stack.sent} == {1}


def test_jobs_of_schedules_are_made_and_sent_ahead(stack: Stack) -> None:
    stack.clock.set(parse("2122-01-24T11:51:00Z"))
    stack.cue.put_schedule("minutely", cron="* * * * *", payload="x")
    stack.clock.set(parse("2122-01-24T11:51:18Z"))
    stack.dispatch()
    assert [entry["DelaySeconds"] for entry in stack.sqs.entries] == [42, 102]
    for _ in range(3):
        stack.clock.advance(60)
        stack.dispatch()
    assert len(stack.sent) == len(set(stack.sent)) == 5


def test_lost_claims_are_taken_back(stack: Stack) -> None:
    job = stack.cue.schedule("x", queue="work")
    stack.cue.claim("work", "ada")
    for _ in range(4):
        stack.clock.advance(60)
        stack.dispatch()
    assert stack.cue.job(job.id).state is State.SCHEDULED


def test_trouble_with_one_queue_does_not_keep_the_others_from_delivery(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tick, "LONGEST_PAUSE_SECONDS", 0.0)  # time stands still in this test
    stack.cue.set_queue("lost", sink="http://127.0.0.1:1/000000000000/lost-queue")
    stack.cue.schedule("x", queue="lost")
    job = stack.cue.schedule("y")
    stack.dispatch()
    assert job.id in stack.sent_ids


def test_the_sink_of_the_deployment_is_that_of_the_queue(stack: Stack) -> None:
    assert stack.cue.queue("default").sink == stack.sink


def test_sinks_stay_open_from_tick_to_tick(stack: Stack) -> None:
    named("mail")  # so that the setting is accepted
    sink = MemorySink()
    sandbox.adopt(STORE, stack.cue, {"memory:mail": sink})
    stack.cue.set_queue("mail", sink="memory:mail")
    for count in (1, 2):
        stack.cue.schedule("x", queue="mail")
        stack.dispatch()
        assert (sink.counts["mail"], sink.closed) == (count, False)
    sandbox.close()
    assert sink.closed


def test_the_deployment_may_ask_for_an_inbox(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stack.store.inbox.settings() is None
    monkeypatch.setenv("ONCUE_INBOX_SHARDS", "3")
    sandbox.give_settings(stack.cue)
    assert stack.store.inbox.settings() == (5, 3)
    monkeypatch.setenv("ONCUE_INBOX_SHARDS", "many")
    with pytest.raises(InvalidInput, match="ONCUE_INBOX_SHARDS: 'many' is not a whole number"):
        sandbox.give_settings(stack.cue)


def test_the_metrics_are_those_of_the_tick(
    inbox: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    inbox.cue.schedule_many({"payload": n} for n in range(3))
    inbox.clock.advance(2)
    inbox.put_due("item", inbox.now)
    inbox.dispatch()
    first = metrics_in(capsys.readouterr().out)
    [queue] = [line for line in first if line.get("queue") == "default"]
    assert (queue["delivered"], queue["set_aside"], max(queue["lateness"])) == (4, 0, 2000)
    inbox.dispatch()
    assert not [line for line in metrics_in(capsys.readouterr().out) if "queue" in line]


def test_a_malformed_item_stops_nothing_and_is_counted(
    inbox: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    inbox.put({"pk": "j#2122-01-24T11:50", "sk": "2122-01-24T11:50:00.000Z#a b", "detail": 1})
    inbox.put_due("good", inbox.now)
    inbox.dispatch()
    assert inbox.sent_ids == ["good"]
    told = metrics_in(capsys.readouterr().out)
    assert [line["set_aside"] for line in told if "queue" not in line] == [1]


def test_a_time_that_is_none_is_refused(stack: Stack) -> None:
    with pytest.raises(InvalidInput, match="/time"):
        stack.dispatch(time="yesterday")
    stack.invoke("dispatch", {})


def test_no_job_is_lost_or_doubled_over_twenty_minutes_of_ticks(inbox: Stack) -> None:
    expected: Counter[str] = Counter()
    for minute in range(20):
        for offset in (0, 7_000, 59_999):
            due_at = START + minute * 60_000 + offset
            inbox.put_due(f"item-{minute}-{offset}", due_at)
            expected[f"item-{minute}-{offset}"] += 1
    for _ in range(22):
        inbox.dispatch()
        inbox.clock.advance(60)
    assert Counter(inbox.sent_ids) == expected


def test_a_schedule_that_cannot_be_decided_on_keeps_nothing_from_delivery(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.cue.put_schedule("lost", cron="* * * * *", payload="x")
    job = stack.cue.schedule("y")

    def fail(*args: object) -> None:
        raise InvalidInput("its time zone has gone", "/timezone")

    monkeypatch.setattr(recurrence, "plan", fail)
    asked = iter(range(200))
    context = Context(lambda: 60_000 if next(asked, None) is not None else 0)
    assert not stack.invoke("dispatch", context=context)["time_over"]
    assert stack.sent_ids == [job.id]


@pytest.mark.parametrize("overlap", ["allow", "skip", "queue"])
def test_an_occurrence_just_after_a_tick_is_not_missed(stack: Stack, overlap: str) -> None:
    stack.clock.set(parse("2122-01-24T11:50:00Z"))
    stack.cue.put_schedule(
        "hourly", cron="0 * * * *", payload="x", overlap=overlap, catch_up="skip"
    )
    for time in ("11:59:59.900", "12:01:00.500", "12:02:00.500"):
        stack.clock.set(parse(f"2122-01-24T{time}Z"))
        stack.dispatch()
    assert len(stack.sent) == 1


def test_started_jobs_are_not_read_again_by_every_tick(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.cue.set_queue("work", sink=stack.sink, completion="worker")
    stack.cue.schedule_many({"payload": n, "queue": "work"} for n in range(5))
    stack.dispatch()
    stack.dispatch()
    walks: list[None] = []
    walk = stack.store._live_jobs

    def walk_noted() -> Iterator[Filed]:
        walks.append(None)
        return walk()

    monkeypatch.setattr(stack.store, "_live_jobs", walk_noted)
    for _ in range(5):
        stack.clock.advance(60)
        stack.dispatch()
    assert walks == []
    stack.clock.advance(3600)
    stack.dispatch()
    assert len(walks) == 1


class PacedAlarm(Alarm):
    """Resting lets the time of the stack pass."""

    clock: FakeClock

    def rest(self, seconds: float | None, longest: float = 0.0) -> float:
        if seconds is None:
            return super().rest(None)
        self.clock.advance(seconds)
        return 0.0


def test_a_queue_with_a_rate_is_delivered_at_this_rate_and_nothing_ahead(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PacedAlarm, "clock", stack.clock, raising=False)
    monkeypatch.setattr(tick, "Alarm", PacedAlarm)
    stack.cue.set_queue("default", sink=stack.sink, rate_per_second=1.0)
    for delay in (0, 75):  # what is sent ahead would arrive all at once
        stack.cue.schedule_many({"payload": n, "delay": delay} for n in range(20))
    began = stack.now
    stack.dispatch()
    assert len(stack.sent) == 20
    assert 18_000 <= stack.now - began <= 22_000
    stack.clock.set(began + 75_000)
    stack.dispatch()
    assert len(set(stack.sent)) == len(stack.sent) == 40
    assert not any("DelaySeconds" in entry for entry in stack.sqs.entries)


def test_what_could_not_be_settled_is_found_again_by_a_sandbox_that_lives_on(
    inbox: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox.put_due("item", inbox.now)

    def lose(*args: object) -> None:
        raise StoreUnavailable("no answer")

    with monkeypatch.context() as away:
        away.setattr(FoundBatch, "settle", lose)
        with pytest.raises(StoreUnavailable):
            inbox.dispatch()
    inbox.clock.advance(60)
    inbox.dispatch()
    assert inbox.sent == [("item", 1), ("item", 1)]
    inbox.clock.advance(60)
    inbox.dispatch()
    assert len(inbox.sent) == 2


def test_a_variable_changes_nothing_but_the_sink(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.cue.set_queue("mail", max_attempts=7)
    monkeypatch.setenv("ONCUE_SINK_mail", stack.sink)
    sandbox.give_settings(stack.cue)
    queue = stack.cue.queue("mail")
    assert (queue.sink, queue.max_attempts) == (stack.sink, 7)


@pytest.mark.parametrize(
    ("name", "sink", "why"),
    [
        ("MAIL", "stream:log:", "a stream sink needs completion='worker'"),
        ("TASKS", "stream:log:", "a stream sink needs a DynamoDB table with a stream"),
        ("MAIL", "smoke:signals", "there is no sink for"),
        ("", "log:", "a queue name is"),
    ],
)
def test_a_sink_that_would_lose_jobs_is_refused_when_a_sandbox_starts(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, name: str, sink: str, why: str
) -> None:
    monkeypatch.setenv(f"ONCUE_SINK_{name}", sink)
    before = stack.cue.queues()
    with pytest.raises(InvalidInput, match=f"ONCUE_SINK_{name}: {why}"):
        sandbox.give_settings(stack.cue)
    assert stack.cue.queues() == before


@pytest.mark.parametrize("has_store", [True, False])
def test_a_misspelt_variable_is_refused_when_a_sandbox_starts(
    monkeypatch: pytest.MonkeyPatch, has_store: bool
) -> None:
    if has_store:
        monkeypatch.setenv("ONCUE_STORE", "memory:")
        monkeypatch.setenv("ONCUE_SINKS_MAIL", "log:")
    else:
        monkeypatch.delenv("ONCUE_STORE", raising=False)
        monkeypatch.setenv("ONCUE_STOR", "memory:")
    meant = "ONCUE_SINK_<QUEUE>" if has_store else "ONCUE_STORE"
    with pytest.raises(InvalidInput, match=f"no such variable; did you mean {meant}?"):
        sandbox.scheduler()


def test_without_a_store_the_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONCUE_STORE", raising=False)
    with pytest.raises(InvalidInput, match="ONCUE_STORE: is not set. Set it to the store"):
        sandbox.scheduler()
