"""The parts of a simulation: the place on an emulator, and the meter."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from oncue.aws import emulator, simulation
from oncue.aws.meter import Meter, MeteredClient, Units
from oncue.aws.simulation import Simulated, Simulation
from oncue.clock import FakeClock
from oncue.core.errors import SinkDown
from oncue.stores.dynamodb.keys import Key
from oncue.stores.dynamodb.table import Table
from oncue.stores.dynamodb.writes import ABSENT, Put, Remove, has
from oncue_bench.dynamodb.meter import Meter as ExactMeter
from oncue_bench.dynamodb.wrapped import Call
from tests.servers import dynamodb_endpoint, ministack_endpoint
from tests.servers.clients import CREDENTIALS, client
from tests.stores.dynamo import client as dynamodb
from tests.stores.dynamo import new_table


@pytest.fixture
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in CREDENTIALS.items():
        monkeypatch.setenv(variable, value)


@pytest.mark.usefixtures("_credentials")
@pytest.mark.parametrize("interrupted", [False, True])
def test_table_and_queue_are_removed_also_if_it_is_interrupted(interrupted: bool) -> None:
    names = []
    try:
        with emulator.place(dynamodb_endpoint(), ministack_endpoint(), FakeClock()) as place:
            names += [place.table.name, place.queue]
            assert dynamodb().describe_table(TableName=place.table.name)
            if interrupted:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert interrupted
    table, queue = names
    with pytest.raises(ClientError, match="ResourceNotFound"):
        dynamodb().describe_table(TableName=table)
    with pytest.raises(ClientError, match="NonExistentQueue"):
        client("sqs", ministack_endpoint()).get_queue_url(QueueName=queue)


@pytest.mark.usefixtures("_credentials")
def test_trouble_of_the_emulator_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **more: object) -> None:
        raise ClientError({"Error": {"Code": "RequestThrottled"}}, "SendMessageBatch")

    monkeypatch.setattr(emulator.RecordingSqs, "send_message_batch", fail)
    places = (dynamodb_endpoint(), ministack_endpoint())
    with pytest.raises(SinkDown, match="RequestThrottled"):
        simulation.simulate(Simulated(1, 1), *places, FakeClock().now(), lambda *_: None)


class Compared(MeteredClient):
    """Counts each request by the exact meter of the benchmark as well, which looks at the items."""

    def __init__(self, real: Any, meter: Meter) -> None:
        super().__init__(real, meter)
        self._exact = ExactMeter(real)
        self.writes = self.reads = 0.0

    def _counted(self, name: str, call: Any, asked: dict[str, Any]) -> Any:
        send = super()._counted
        charges, answer = self._exact.measured(Call(name, asked), lambda: send(name, call, asked))
        self.writes += sum(one.writes for one in charges)
        self.reads += sum(one.reads for one in charges)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_the_meter_counts_as_the_one_that_looks_at_the_items() -> None:
    meter, name = Meter(), new_table().name
    compared = Compared(dynamodb(), meter)
    table = Table(name, lambda: compared)
    large = {"payload": b"x" * 3000}
    first = [{"pk": "a", "sk": f"{n}", "ver": 1, **large} for n in range(30)]
    looked = [{"pk": "b", "sk": f"{n}", "ver": 1, "look": "l", "at": f"{n}"} for n in range(3)]
    table.write(first[:-1])
    table.write_each([Put(one, ABSENT) for one in (first[-1], *looked)])
    table.write_each([Put({**one, "ver": 2, "at": "9"}, has("ver", 1)) for one in looked])
    table.write_each([Put({**one, "ver": 3}, has("ver", 1)) for one in looked])  # refused
    table.read([Key("a", "1"), Key("a", "missing")])
    list(table.query("a"))
    table.write(removed=[Key("a", "1")])
    table.transact([Put({"pk": "t", "sk": "1", **large}, ABSENT), Remove(Key("a", "2"))])
    table.write_each([Remove(Key("b", f"{n}"), has("ver", 2)) for n in range(3)])
    table.close()
    dynamodb().delete_table(TableName=name)
    assert meter.units == Units(compared.writes, compared.reads, 0)


def test_a_request_of_sqs_is_charged_by_64_kilobytes() -> None:
    meter = Meter()
    for size in (0, 65_536, 65_537):
        meter.sent(size)
    assert meter.units.requests == 4


def test_jobs_are_due_evenly_from_the_second_tick_on() -> None:
    dues = Simulated(jobs=4, minutes=2).dues(1000)
    assert dues == [61_000, 91_000, 121_000, 151_000]


def test_lost_and_doubled_jobs_are_counted() -> None:
    arrivals = [emulator.Arrival(name, 0, late) for name, late in (("a", 10), ("b", 30), ("b", 20))]
    found = Simulation(Simulated(jobs=3, minutes=1), arrivals, Units(), Units())
    assert (found.lost, found.doubled) == (1, 1)
    assert [found.quantile_ms(share) for share in (0.0, 0.5, 1.0)] == [10, 20, 30]
    assert Simulation(found.simulated, [], Units(), Units()).quantile_ms(0.5) is None


@pytest.mark.usefixtures("_credentials")
def test_a_job_that_is_stored_after_its_tick_is_late_by_less_than_the_next() -> None:
    asked = Simulated(jobs=12, minutes=2, ahead_seconds=0)
    places, start = (dynamodb_endpoint(), ministack_endpoint()), FakeClock().now()
    found = simulation.simulate(asked, *places, start, lambda *_: None)
    assert (found.lost, found.doubled) == (0, 0)
    waited = [0, 10_000, 20_000, 30_000, 40_000, 50_000]
    assert found.lateness_ms == sorted(2 * waited)
