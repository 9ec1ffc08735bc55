"""What the figures of `cost.py` assume and leave out, in sentences; and warnings about a load."""

from __future__ import annotations

from collections.abc import Iterator

from oncue.aws import cost
from oncue.aws.cost import Dispatch, Workload
from oncue.aws.prices import LOOKED_UP, MILLION, PRICES

SHARD_JOBS = 500  # per second that a shard stores and hands over


def assumptions(load: Workload, region: str, *, free_tier: bool) -> list[str]:
    """Plain sentences, the most important first."""
    return [
        _prices(region),
        _free(free_tier),
        f"A month is {cost.DAYS} days. Jobs come evenly: {pace(load)} on average, and each waits "
        f"for {_counted(load.wait_days, 'day')}. Nothing fails, is retried or is cancelled.",
        _life(load),
        _looking(load),
        *_delivering(load),
        _scheduler(load),
        f"Step Functions: standard workflows, {cost.TRANSITIONS} state transitions for each job "
        "(wait, send). Like EventBridge Scheduler, it sends each message to SQS by itself.",
        _rds(load),
        "Left out: workers and consumers, data transfer, logs, alarms, API Gateway, support.",
    ]


def cautions(load: Workload) -> list[str]:
    """Reasons why the load may not work as it was given."""
    return list(_cautions(load))


def pace(load: Workload) -> str:
    """The average rate."""
    rate = load.jobs_per_second
    if rate < 0.1:
        return f"{rate * 3600:.3g} jobs/h"
    return f"{rate:,.0f} jobs/s" if rate >= 100 else f"{rate:.3g} jobs/s"


def _prices(region: str) -> str:
    text = (
        f"Prices are those of {region} on {LOOKED_UP}, in US dollars, without taxes and discounts; "
        "--json names the source of each. Check them before you rely on them."
    )
    names = [name for name, price in PRICES[region].items() if not price.confirmed]
    if names:
        text += f" Not confirmed for {region}: {', '.join(names)}."
    return text


def _free(free_tier: bool) -> str:
    if free_tier:
        return (
            "What AWS gives free in every month is taken off each line, as if nothing else in the "
            "account used it."
        )
    invocations = PRICES["us-east-1"]["scheduler_invocation"].free / MILLION
    return (
        "Free tiers are left out; --free-tier takes them off. They matter for small loads: the "
        f"first {invocations:.0f} million invocations of EventBridge Scheduler are free in every "
        "month."
    )


def _life(load: Workload) -> str:
    life = load.life
    how = "pulled by workers" if load.pulled else "delivered to SQS"
    if load.idempotent:
        how += ", stored with an Idempotency-Key"
    if load.keyed:
        how += ", with a key"
    if load.heartbeats:
        how += f", {_counted(load.heartbeats, 'heartbeat')}"
    expiry = " Records expire by themselves, which is free." if life.is_recorded else ""
    days = _counted(load.keep_days, "day")
    kept = f"kept for {days}" if life.keeps_history else "no history kept"
    return (
        f"DynamoDB: a table on demand. A job ({how}, {kept}) takes {life.writes:g} write units and "
        f"{life.reads:g} read units; a payload above 1 KB is an item of its own.{expiry} "
        "Units are computed from the layout of the table, not measured."
    )


def _looking(load: Workload) -> str:
    if load.pulled:
        each = "each worker process" if load.workers > 1 else "a worker process"
        who = f"{each} looks every second"
    elif load.dispatch is Dispatch.LAMBDA:
        who = "a Lambda function looks once a minute"
    else:
        who = "'oncue serve' looks every second"
    leases = ""
    if not load.pulled:
        leases = (
            f" A look that finds jobs writes the lease of the shard: {cost.BATCH_WRITES} write "
            "units, whatever it finds."
        )
    return (
        f"Polling: {who} at {_counted(load.all_shards, 'shard')} "
        f"({_counted(load.queues, 'queue')} × {load.shards}) with "
        f"{_counted(load.priorities, 'priority')} in use, which takes "
        f"{_counted(cost.look_reads(load), 'read unit')}; a look of the reclaimer takes "
        f"{cost.reclaim_reads(load)}.{leases}"
    )


def _delivering(load: Workload) -> Iterator[str]:
    if load.pulled:
        return
    yield (
        f"SQS: a standard queue; oncue sends up to {cost.MESSAGES} messages in a request, and "
        f"consumers receive and delete {cost.MESSAGES} at once. 64 KB are charged as one request."
    )
    if load.dispatch is Dispatch.LAMBDA:
        yield (
            f"Lambda: the dispatch function on Arm with {cost.FUNCTION_GB * 1024:.0f} MB, one "
            "call in a minute, which also takes back lost jobs; a call takes "
            f"{cost.FUNCTION_SECONDS:g} s and 1 s more for each {cost.FUNCTION_JOBS:,} jobs. "
            "A job that is stored less than a minute ahead can be up to a minute late; "
            "--dispatch serve has a poll of 1 s instead."
        )
    else:
        yield (
            "Dispatch: one 'oncue serve' on Fargate, Arm, "
            f"{cost.TASK_CPU:g} vCPU and {cost.TASK_GB:g} GB."
        )


def _scheduler(load: Workload) -> str:
    text = "EventBridge Scheduler: one invocation for each job. It keeps no record of what it sent"
    return f"{text}: compare it with --keep-days 0." if load.life.keeps_history else f"{text}."


def _rds(load: Workload) -> str:
    runs = "" if load.pulled else ", with one 'oncue serve' on Fargate"
    return (
        "RDS: oncue on one db.t4g.medium (2 vCPU, 4 GB), whatever the load, with gp3 storage of "
        f"{cost.RDS_GROWTH} bytes for each byte of jobs and at least {cost.RDS_LEAST_GB} GB{runs}. "
        "One zone has no standby; Multi-AZ has one, as DynamoDB has copies in three zones."
    )


def _cautions(load: Workload) -> Iterator[str]:
    rate = load.jobs_per_second
    room = load.all_shards * SHARD_JOBS
    if rate > room:
        need = -(-load.jobs_per_day // (86_400 * SHARD_JOBS * load.queues))
        yield (
            f"{pace(load)} are more than {_counted(load.all_shards, 'shard')} can take ({room:,} "
            f"jobs/s): use --shards {need} or more, and more for peaks."
        )
    if rate > cost.FUNCTION_JOBS and load.dispatch is Dispatch.LAMBDA and not load.pulled:
        yield (f"{pace(load)} are more than one Lambda function hands over; use --dispatch serve.")
    if rate > cost.RDS_JOBS:
        yield f"{pace(load)} may be too much for the db.t4g.medium of the comparison."


def _counted(number: float, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    plural = "priorities" if noun == "priority" else f"{noun}s"
    return f"{number:,g} {plural}" if number % 1 else f"{number:,.0f} {plural}"
