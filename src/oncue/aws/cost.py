"""What a load costs on AWS in a month: the arithmetic of `oncue cost`, and nothing else.

`bills` compares oncue on DynamoDB and on PostgreSQL with other services that start work at a later
time. What these figures assume is said by `assumptions.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from oncue.aws.prices import Price, PriceList
from oncue.aws.units import Life

DAYS = 30  # of a month
SECONDS = DAYS * 86_400
HOURS = DAYS * 24
GB = 1024**3

BATCH_JOBS = 1000  # that a dispatcher claims at once, at most
BATCH_WRITES = 3  # for the lease of the shard
LOOK_READS = 0.5  # the least that a Query takes
RECLAIM_READS = 12  # of a look of the reclaimer; and one for each shard that has a dispatcher
RECLAIM_SECONDS = 2  # between two looks of a process
TICK_SECONDS = 60  # between two calls of the dispatch function

FUNCTION_GB = 0.5
FUNCTION_SECONDS = 0.5  # of a call that finds nothing
FUNCTION_JOBS = 1000  # that a call hands over in a second

TASK_CPU, TASK_GB = 0.25, 0.5  # the smallest task of Fargate

MESSAGES = 10  # in a request of SQS, at most
CHUNK_BYTES = 65_536  # of messages that are charged as one request
ATTRIBUTE_BYTES = 200  # of a message beside its payload

TRANSITIONS = 2  # Wait, then SendMessage
RDS_JOBS = 500  # per second from which the instance is doubtful; a guess, not measured
RDS_LEAST_GB = 20
RDS_GROWTH = 2  # bytes on disk for each byte of jobs: indexes, dead rows, room to grow


class Dispatch(StrEnum):
    """Who delivers due jobs to the sink."""

    LAMBDA = "lambda"
    SERVE = "serve"


@dataclass(frozen=True, slots=True)
class Workload:
    """What oncue is to carry. All jobs have the same life, spread evenly over the day."""

    jobs_per_day: int
    payload_bytes: int = 500
    keep_days: float = 7.0
    wait_days: float = 1.0
    queues: int = 1
    shards: int = 4
    priorities: int = 1
    dispatch: Dispatch = Dispatch.LAMBDA
    idempotent: bool = False
    keyed: bool = False
    pulled: bool = False
    heartbeats: float = 0.0
    workers: int = 1
    """Processes that ask the store for pulled jobs."""
    recovery: bool = False
    """Whether the table has point-in-time recovery."""

    @property
    def jobs(self) -> int:
        """In a month."""
        return self.jobs_per_day * DAYS

    @property
    def jobs_per_second(self) -> float:
        return self.jobs_per_day / 86_400

    @property
    def life(self) -> Life:
        return Life(
            self.payload_bytes,
            keeps_history=self.keep_days > 0,
            idempotent=self.idempotent,
            keyed=self.keyed,
            pulled=self.pulled,
            heartbeats=self.heartbeats,
        )

    @property
    def all_shards(self) -> int:
        return self.queues * self.shards

    @property
    def looks(self) -> int:
        """How often somebody looks at all shards in a month, if nothing is due."""
        if self.pulled:
            return self.workers * SECONDS
        return SECONDS // (TICK_SECONDS if self.dispatch is Dispatch.LAMBDA else 1)

    @property
    def batches(self) -> float:
        """Batches of dispatchers in a month, at most."""
        if self.pulled:
            return 0
        return max(min(self.jobs, self.looks * self.all_shards), self.jobs / BATCH_JOBS)

    @property
    def reclaim_looks(self) -> float:
        """How often reclaimers look in a month."""
        if self.pulled:
            return self.workers * SECONDS / RECLAIM_SECONDS
        return SECONDS / (TICK_SECONDS if self.dispatch is Dispatch.LAMBDA else RECLAIM_SECONDS)


@dataclass(frozen=True, slots=True)
class Part:
    """One line of a bill."""

    name: str
    quantity: float
    price: Price
    dollars: float


@dataclass(frozen=True, slots=True)
class Bill:
    """What one of the alternatives costs in a month."""

    name: str
    title: str
    parts: list[Part]

    @property
    def dollars(self) -> float:
        return sum(part.dollars for part in self.parts)


Quantities = list[tuple[str, str, float]]
"""Lines of a bill without their prices: what it is, the name of its price, how much."""


def bills(load: Workload, prices: PriceList, *, free_tier: bool = False) -> list[Bill]:
    """The alternatives, oncue on DynamoDB first. With `free_tier`, what is free in every month is
    taken off each."""

    def bill(name: str, title: str, quantities: Quantities) -> Bill:
        parts = [
            Part(what, amount, price, price.of(amount, free_tier=free_tier))
            for what, price, amount in (
                (what, prices[kind], amount) for what, kind, amount in quantities if amount
            )
        ]
        return Bill(name, title, parts)

    return [
        bill("dynamodb", dynamodb_title(load), dynamodb(load)),
        bill("eventbridge_scheduler", "EventBridge Scheduler, SQS", eventbridge_scheduler(load)),
        bill("step_functions", "Step Functions waits, SQS", step_functions(load)),
        bill("rds", rds_title(load, "one zone"), rds(load, zones=1)),
        bill("rds_multi_az", rds_title(load, "Multi-AZ"), rds(load, zones=2)),
    ]


def dynamodb_title(load: Workload) -> str:
    if load.pulled:
        return "oncue on DynamoDB"
    runs = "Lambda" if load.dispatch is Dispatch.LAMBDA else "Fargate"
    return f"oncue on DynamoDB, SQS, {runs}"


def rds_title(load: Workload, zones: str) -> str:
    doubt = " (too small?)" if load.jobs_per_second > RDS_JOBS else ""
    return f"oncue on RDS PostgreSQL, {zones}{doubt}"


def look_reads(load: Workload) -> float:
    """Read units of a look at all shards: at the settings, at each queue and at each line."""
    lines = load.all_shards * (load.priorities + 1) * LOOK_READS
    return 1 + load.queues + lines


def reclaim_reads(load: Workload) -> int:
    """Read units of a look of the reclaimer, if nothing was lost."""
    return RECLAIM_READS + (0 if load.pulled else load.all_shards)


def dynamodb(load: Workload) -> Quantities:
    """oncue with its jobs in one table, on demand."""
    polling = load.looks * look_reads(load) + load.reclaim_looks * reclaim_reads(load)
    table, index = stored_gb(load)
    return [
        ("DynamoDB writes, jobs", "dynamodb_write", load.jobs * load.life.writes),
        ("DynamoDB writes, leases", "dynamodb_write", load.batches * BATCH_WRITES),
        ("DynamoDB reads, jobs", "dynamodb_read", load.jobs * load.life.reads),
        ("DynamoDB reads, polling", "dynamodb_read", polling),
        ("DynamoDB storage", "dynamodb_storage", table + index),
        ("DynamoDB recovery", "dynamodb_recovery", table if load.recovery else 0),
        *_delivery(load),
        *_dispatching(load),
    ]


def stored_gb(load: Workload) -> tuple[float, float]:
    """What the table and its index hold on average: what waits, and what is kept."""
    life = load.life
    kept_days = max(load.keep_days, 1) if life.is_recorded else 0
    table = load.wait_days * life.stored_waiting + kept_days * life.stored_ended
    return load.jobs_per_day * table / GB, load.jobs_per_day * kept_days * life.stored_index / GB


def _delivery(load: Workload) -> Quantities:
    """Of oncue to SQS, in batches, and on from there."""
    if load.pulled:
        return []
    full = load.jobs / MESSAGES * _chunks(MESSAGES * message_bytes(load))
    return [("SQS requests", "sqs_request", max(full, load.batches) + _consumption(load))]


def _dispatching(load: Workload) -> Quantities:
    """What oncue itself runs on; pulled jobs need nothing beside their workers."""
    if load.pulled:
        return []
    if load.dispatch is Dispatch.SERVE:
        return _task()
    calls = SECONDS / TICK_SECONDS
    seconds = calls * FUNCTION_SECONDS + load.jobs / FUNCTION_JOBS
    return [
        ("Lambda calls", "lambda_request", calls),
        ("Lambda duration", "lambda_duration", seconds * FUNCTION_GB),
    ]


def _task() -> Quantities:
    return [
        ("Fargate processor", "fargate_cpu", HOURS * TASK_CPU),
        ("Fargate memory", "fargate_memory", HOURS * TASK_GB),
    ]


def eventbridge_scheduler(load: Workload) -> Quantities:
    """One schedule for each job, whose target is the queue."""
    return [
        ("Scheduler invocations", "scheduler_invocation", load.jobs),
        ("SQS requests", "sqs_request", _single_sends(load) + _consumption(load)),
    ]


def step_functions(load: Workload) -> Quantities:
    """One execution for each job, which waits and then sends a message."""
    return [
        ("Step Functions transitions", "step_transition", load.jobs * TRANSITIONS),
        ("SQS requests", "sqs_request", _single_sends(load) + _consumption(load)),
    ]


def rds(load: Workload, zones: int) -> Quantities:
    """oncue on a PostgreSQL server; a standby in a second zone is charged as the first is."""
    load = replace(load, dispatch=Dispatch.SERVE)
    disk = max(RDS_LEAST_GB, math.ceil(RDS_GROWTH * stored_gb(load)[0]))
    return [
        ("RDS instance", "rds_instance", HOURS * zones),
        ("RDS storage", "rds_storage", disk * zones),
        *_delivery(load),
        *([] if load.pulled else _task()),
    ]


def message_bytes(load: Workload) -> int:
    return load.payload_bytes + ATTRIBUTE_BYTES


def _single_sends(load: Workload) -> int:
    """Requests where every message is sent by itself."""
    return load.jobs * _chunks(message_bytes(load))


def _consumption(load: Workload) -> float:
    """Requests of consumers, which receive and delete full batches."""
    return load.jobs / MESSAGES * (_chunks(MESSAGES * message_bytes(load)) + 1)


def _chunks(size: int) -> int:
    return -(-size // CHUNK_BYTES)
