"""The clock of a DynamoDB store: the machine's, corrected by the `Date` of the answers."""

from __future__ import annotations

from email.utils import format_datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from oncue.clock import FakeClock, SystemClock
from oncue.core.errors import StoreUnavailable
from oncue.core.job import NewJob
from oncue.core.lifecycle import State
from oncue.core.moment import Moment, to_datetime
from oncue.core.queue import default_queue
from oncue.core.sharing import Taker
from oncue.ports.clock import Clock
from oncue.stores.dynamodb.skew import ServiceClock
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.dynamodb.table import Table
from tests.servers.clients import dynamodb_client
from tests.stores.dynamo import new_table

PRIME = 137  # milliseconds between two answers: they come at all parts of a second


class World:
    """A machine whose clock is ahead of the service by `ahead_ms`."""

    def __init__(self, ahead_ms: int, trip_ms: int = 8) -> None:
        self.machine = FakeClock()
        self.ahead_ms = ahead_ms
        self.trip_ms = trip_ms
        self.clock = ServiceClock(self.machine)

    @property
    def truth(self) -> Moment:
        return self.machine.now() - self.ahead_ms

    def ask(self, times: int = 1) -> None:
        """Requests, of which the service writes the date in the middle of the trip."""
        for _ in range(times):
            sent = self.machine.now(), self.machine.monotonic()
            self.machine.advance(self.trip_ms / 2000)
            date = format_datetime(to_datetime(self.truth // 1000 * 1000), usegmt=True)
            self.machine.advance(self.trip_ms / 2000)
            self.clock.heard(date, *sent)
            self.machine.advance(PRIME / 1000)

    def set(self, ahead_ms: int) -> None:
        """Set the machine's clock."""
        self.machine.set(self.truth + ahead_ms)
        self.ahead_ms = ahead_ms


def test_a_clock_of_which_nothing_is_known_is_the_machine_s() -> None:
    world = World(0)
    assert world.clock.now() == world.machine.now()
    assert world.clock.monotonic() == world.machine.monotonic()
    assert world.clock.origin() == world.machine.origin()


@pytest.mark.parametrize("trip_ms", [2, 40, 1500])
def test_a_clock_that_is_right_is_not_touched(trip_ms: int) -> None:
    world = World(0, trip_ms)
    for _ in range(50):
        world.ask()
        assert world.clock.now() == world.machine.now()
        assert world.clock.skew_seconds == 0


@pytest.mark.parametrize("ahead_ms", [-90_000, -1500, -300, 300, 1500, 90_000])
@pytest.mark.parametrize("trip_ms", [2, 40, 250])
def test_a_clock_that_is_known_to_be_wrong_is_never_ahead_of_the_service(
    ahead_ms: int, trip_ms: int
) -> None:
    world = World(ahead_ms, trip_ms)
    for _ in range(100):
        world.ask()
        if world.clock.skew_seconds:
            assert world.clock.now() <= world.truth
        else:
            assert world.clock.now() == world.machine.now()
    late_ms = world.truth - world.clock.now()
    assert 0 <= late_ms <= 30 + trip_ms


def test_a_slow_answer_says_less() -> None:
    world = World(1500, trip_ms=4000)
    world.ask(100)
    assert world.clock.skew_seconds == 0


def test_one_answer_says_little_and_many_say_how_far_it_is_off() -> None:
    world = World(-5000)
    world.ask()
    assert 4 <= world.clock.skew_seconds <= 5
    world.ask(100)
    assert 4.95 <= world.clock.skew_seconds <= 5


def test_beyond_two_seconds_no_work_is_taken_and_the_skew_is_named() -> None:
    for ahead_ms, words in ((2600, "ahead of"), (-2600, "behind")):
        world = World(ahead_ms)
        world.ask(100)
        with pytest.raises(StoreUnavailable, match=rf"2\.6 s {words} that of DynamoDB\. No work"):
            world.clock.require_agreement(world.ask)


def test_up_to_two_seconds_work_is_taken() -> None:
    for ahead_ms in (-1900, 0, 1900):
        world = World(ahead_ms)
        world.ask(100)
        world.clock.require_agreement(world.ask)


def test_a_clock_that_was_set_right_is_seen_by_asking_once_more() -> None:
    world = World(60_000)
    world.ask(100)
    world.set(0)
    world.clock.require_agreement(world.ask)
    assert world.clock.now() == world.machine.now()


def test_a_clock_that_drifts_is_followed() -> None:
    world = World(0)
    world.ask(100)
    for _ in range(300):  # 5,000 answers in twelve minutes, in which it gains 300 ms
        world.set(world.ahead_ms + 1)
        world.ask(17)
    assert world.clock.now() <= world.truth <= world.clock.now() + 50


@pytest.mark.parametrize("date", ["", "now", "Mon, 99 Foo 2027 00:00:00 GMT"])
def test_a_date_that_cannot_be_read_says_nothing(date: str) -> None:
    world = World(0)
    world.clock.heard(date, world.machine.now(), world.machine.monotonic())
    assert world.clock.now() == world.machine.now()


class Preempted(FakeClock):
    """Of a process that is interrupted after each reading of a clock."""

    def now(self) -> Moment:
        found = super().now()
        self.advance(0.06)
        return found

    def monotonic(self) -> float:
        found = super().monotonic()
        self.advance(0.06)
        return found


def test_a_pause_between_two_readings_of_the_clock_does_not_move_it() -> None:
    machine = Preempted(1_800_000_000_000)
    clock = ServiceClock(machine)
    for _ in range(20):  # at the beginning of a second, its date says most
        context: dict[str, Any] = {}
        clock._on_request(context)
        machine.advance(0.05)
        date = format_datetime(to_datetime(FakeClock.now(machine) // 1000 * 1000), usegmt=True)
        clock.heard(date, *context["oncue_sent"])
    assert clock.skew_seconds == 0


# -- on a table ------------------------------------------------------------------------------------


def skewed_store(dynamodb: str, machine: Clock) -> DynamoStore:
    clock = ServiceClock(machine)
    table = Table(new_table().name, lambda: clock.listen(dynamodb_client(dynamodb)))
    return DynamoStore(table, clock)


def test_every_answer_of_the_service_tells_its_time_even_a_refusal(dynamodb: str) -> None:
    clock = ServiceClock(FakeClock(0))
    client = clock.listen(dynamodb_client(dynamodb))
    assert clock.skew_seconds == 0
    with pytest.raises(ClientError):
        client.describe_table(TableName="there-is-none")
    assert clock.skew_seconds > 50 * 365 * 86_400


def test_a_store_on_a_machine_with_a_wrong_clock_takes_no_work(dynamodb: str) -> None:
    store = skewed_store(dynamodb, FakeClock(0))
    queue = default_queue("mail")
    calls = [
        lambda: store.claim([queue], [Taker("me", 1)], store.clock.now(), nonce="n"),
        lambda: store.claim_range(queue, "me", 1, store.clock.now(), lease_seconds=60),
        lambda: store.inbox.step("me", store.clock.now(), lambda batch: None),
    ]
    for call in calls:
        with pytest.raises(StoreUnavailable, match="behind that of DynamoDB"):
            call()
    assert store.queues() == [], "all else goes on, by the time of the service"
    store.close()


class TurnedClock(SystemClock):
    """The clock of this machine after it was set back."""

    back_ms = 0

    def now(self) -> Moment:
        return super().now() - self.back_ms


def test_a_job_in_a_range_is_seen_to_be_by_a_machine_whose_clock_was_set_back(
    dynamodb: str,
) -> None:
    machine = TurnedClock()
    store = skewed_store(dynamodb, machine)
    now = store.clock.now()
    job = NewJob(id="one", queue="mail", due_at=now, payload=b"{}", priority=0, created_at=now)
    store.insert([job], now)
    taken = store.claim_range(default_queue("mail"), "me", 1, now, lease_seconds=600)
    assert [one.id for one in taken.jobs] == ["one"]
    machine.back_ms = 3_600_000
    found = store.get("one")
    assert found is not None
    assert found.state is State.DISPATCHED
    store.close()
