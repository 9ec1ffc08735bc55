"""Tables of other systems on the emulator, their items, those systems at work, and runs that end
before or after any request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, cast
from uuid import uuid4

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from oncue import Scheduler
from oncue.aws.adoption import Adoption, AdoptReport, OthersLayout
from oncue.aws.others_table import OthersTable
from oncue.aws.task_table import TaskLayout
from oncue.aws.waiter_table import WaiterLayout
from oncue.clock import FakeClock
from oncue.core.job import Job, JobFilter
from oncue.core.moment import Moment, parse
from oncue.ports.store import Store
from oncue.stores.dynamodb.table import Table
from oncue_bench.dynamodb.wrapped import Call, WrappedClient
from tests.stores.dynamo import client
from tests.stores.kinds import open_kind

NOW = parse("2122-03-04T12:00:00Z")  # not in the past: the emulator removes what has expired
HOUR = 3600
STORES = ("memory", "dynamodb", "postgresql")


class Killed(BaseException):
    pass


class Outside:
    """All requests of a run: those to the table, and the jobs that it stores."""

    def __init__(self) -> None:
        self.calls = 0
        self.before: Callable[[int], object] = lambda number: None
        self.after: Callable[[int], object] = lambda number: None
        self._lock = threading.Lock()

    def do(self, act: Callable[[], Any]) -> Any:
        with self._lock:
            self.calls += 1
            number = self.calls
        self.before(number)
        answer = act()
        self.after(number)
        return answer


class WatchedClient(WrappedClient):
    def __init__(self, real: Any, outside: Outside) -> None:
        super().__init__(real)
        self.outside = outside

    def during(self, call: Call) -> Any:
        return self.outside.do(lambda: self.send(call))


class Rig:
    """A store, and a table of another system."""

    keys: ClassVar[tuple[str, str]]
    attributes: dict[str, str]
    indexes: dict[str, Any]

    def __init__(self, kind: str = "memory") -> None:
        self.clock = FakeClock(NOW)
        self.store: Store = open_kind(kind, Path(), self.clock, shards=2)
        self.cue = Scheduler(self.store, clock=self.clock)
        self.name = f"others-{uuid4().hex}"
        kinds = [
            {"AttributeName": name, "AttributeType": one} for name, one in self.attributes.items()
        ]
        client().create_table(
            TableName=self.name,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=schema(*self.keys),
            AttributeDefinitions=kinds,
            **self.indexes,
        )

    def close(self) -> None:
        self.cue.close()
        client().delete_table(TableName=self.name)

    def layout(self) -> OthersLayout:
        raise NotImplementedError

    def put(self, *items: Mapping[str, Any]) -> None:
        wire = [{"PutRequest": {"Item": as_wire(item)}} for item in items]
        for start in range(0, len(wire), 25):
            client().batch_write_item(RequestItems={self.name: wire[start : start + 25]})

    def change(self, item: Mapping[str, Any]) -> None:
        """Put an item in the place of one that is there."""
        with suppress(client().exceptions.ConditionalCheckFailedException):
            client().put_item(
                TableName=self.name,
                Item=as_wire(item),
                ConditionExpression="attribute_exists(#k)",
                ExpressionAttributeNames={"#k": self.keys[1]},
            )

    def items(self) -> list[dict[str, Any]]:
        found = client().scan(TableName=self.name, ConsistentRead=True)["Items"]
        read = TypeDeserializer().deserialize
        return [{name: read(value) for name, value in item.items()} for item in found]

    def delete(self, item: Mapping[str, Any]) -> bool:
        """Conditionally, as one of several systems does that look for the same items."""
        key = as_wire({name: item[name] for name in self.keys})
        try:
            client().delete_item(
                TableName=self.name,
                Key=key,
                ConditionExpression="attribute_exists(#k)",
                ExpressionAttributeNames={"#k": self.keys[1]},
            )
        except client().exceptions.ConditionalCheckFailedException:
            return False
        return True

    def table(self, real: Any = None) -> OthersTable:
        """`real`: the client, of boto3."""
        return OthersTable(Table(self.name, lambda: real or client()), self.keys)

    def survey(self, *, stopped: bool = False) -> AdoptReport:
        with closing(self.table()) as table:
            return Adoption(self.cue, table, self.layout(), stopped).survey()

    def adopt(
        self, outside: Outside | None = None, *, real: Any = None, stopped: bool = False
    ) -> AdoptReport:
        """As the command does. `outside` has the requests from when on it changes something."""
        queues, cue = set(self.survey(stopped=stopped).queues), self.cue
        if outside is not None:
            real = WatchedClient(client(), outside)
            cue = Scheduler(cast(Store, WatchedStore(self.store, outside)))
        with closing(self.table(real)) as table:
            return Adoption(cue, table, self.layout(), stopped).run(queues)

    def jobs(self, queue: str) -> list[Job]:
        found: list[Job] = []
        page = self.store.page(JobFilter(queue), None, 500)
        while True:
            found += page.items
            if page.next is None:
                return found
            page = self.store.page(JobFilter(queue), page.next, 500)


class WatchedStore:
    """Has whatever the store has."""

    def __init__(self, store: Store, outside: Outside) -> None:
        self._store = store
        self._outside = outside

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def insert(self, *arguments: Any) -> Any:
        return self._outside.do(lambda: self._store.insert(*arguments))


class WaiterRig(Rig):
    keys = ("scheduler", "job_id")

    def __init__(self, kind: str = "memory", *, indexed: bool = True) -> None:
        index = {
            "IndexName": "scheduler-perform_at-index",
            "KeySchema": schema("scheduler", "perform_at"),
            "Projection": {"ProjectionType": "ALL"},
        }
        self.attributes = dict.fromkeys(self.keys, "S")
        self.indexes = {}
        if indexed:
            self.attributes["perform_at"] = "N"
            self.indexes["LocalSecondaryIndexes"] = [index]
        super().__init__(kind)

    def layout(self) -> WaiterLayout:
        return WaiterLayout("eu-central-1")


class TaskRig(Rig):
    keys = ("userId", "requestId")

    def __init__(self, kind: str = "memory") -> None:
        index = {
            "IndexName": "dueDate-index",
            "KeySchema": schema("dueDate", "requestId"),
            "Projection": {"ProjectionType": "ALL"},
        }
        self.attributes = dict.fromkeys((*self.keys, "dueDate"), "S")
        self.indexes = {"GlobalSecondaryIndexes": [index]}
        super().__init__(kind)

    def layout(self) -> TaskLayout:
        return TaskLayout()

    def due_on(self, due: str) -> list[dict[str, Any]]:
        """What the index has: as the other system looks for tasks."""
        found = client().query(
            TableName=self.name,
            IndexName="dueDate-index",
            KeyConditionExpression="dueDate = :d",
            ExpressionAttributeValues={":d": {"S": due}},
        )
        return list(found["Items"])

    def start(self, item: dict[str, Any]) -> None:
        """As the other system does: the whole item, as it was read, without a condition."""
        client().put_item(TableName=self.name, Item={**item, "status": {"S": "STARTED"}})


def schema(partition: str, order: str) -> list[dict[str, str]]:
    return [
        {"AttributeName": partition, "KeyType": "HASH"},
        {"AttributeName": order, "KeyType": "RANGE"},
    ]


def as_wire(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: TypeSerializer().serialize(value) for name, value in item.items()}


def message(
    job_id: str, due_at: Moment = NOW + 24 * HOUR * 1000, queue: str = "mailers", **more: Any
) -> dict[str, Any]:
    """An item as shoryuken-waiter puts it."""
    body = {
        "job_class": "MailJob",
        "job_id": job_id,
        "queue_name": queue,
        "priority": None,
        "arguments": ["ada", 3, Decimal("0.5"), {"deep": [True]}],
        "locale": "en",
    }
    attribute = {"string_value": "ActiveJob::JobWrapper", "data_type": "String"}
    return {
        "scheduler": "shoryuken-waiter",
        "job_id": job_id,
        "perform_at": Decimal(due_at) / 1000,
        "sqs_message_body": body,
        "sqs_message_attributes": {"shoryuken_class": attribute},
        **more,
    }


def task(request_id: str, due: str = "2122-03-06#17", **more: Any) -> dict[str, Any]:
    """An item as the task scheduler puts it."""
    return {
        "userId": "1234",
        "requestId": request_id,
        "dueDate": due,
        "status": "SCHEDULED",
        "content": {"mail": "follow-up", "discount": Decimal("0.15"), "days": 15},
        **more,
    }
