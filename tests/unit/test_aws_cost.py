"""What a load costs on AWS: sums that can be checked by hand."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from oncue.aws.assumptions import assumptions, cautions
from oncue.aws.cost import GB, Bill, Dispatch, Workload, bills
from oncue.aws.prices import LOOKED_UP, PRICES

US = PRICES["us-east-1"]


def bill(load: Workload, name: str = "dynamodb", *, free_tier: bool = False) -> Bill:
    [found] = [one for one in bills(load, US, free_tier=free_tier) if one.name == name]
    return found


def dollars(of: Bill) -> dict[str, Any]:
    return {part.name: pytest.approx(part.dollars) for part in of.parts}


def quantities(of: Bill) -> dict[str, Any]:
    return {part.name: pytest.approx(part.quantity) for part in of.parts}


def test_a_million_jobs_a_day_that_are_sent_and_forgotten() -> None:
    """30 million jobs a month, 2 write units and 1.5 read units each; one queue of 4 shards that a
    Lambda looks at 43,200 times."""
    assert quantities(bill(Workload(1_000_000, keep_days=0))) == {
        "DynamoDB writes, jobs": 60_000_000,
        "DynamoDB writes, leases": 4 * 43_200 * 3,
        "DynamoDB reads, jobs": 45_000_000,
        "DynamoDB reads, polling": 43_200 * (2 + 4 * 2 * 0.5) + 43_200 * (12 + 4),
        "DynamoDB storage": 1_000_000 * 800 / GB,
        "SQS requests": 3_000_000 * 3,
        "Lambda calls": 43_200,
        "Lambda duration": (43_200 * 0.5 + 30_000) * 0.5,
    }


def test_quantities_become_dollars() -> None:
    assert dollars(bill(Workload(1_000_000, keep_days=0))) == {
        "DynamoDB writes, jobs": 60 * 0.625,
        "DynamoDB writes, leases": 0.5184 * 0.625,
        "DynamoDB reads, jobs": 45 * 0.125,
        "DynamoDB reads, polling": 0.9504 * 0.125,
        "DynamoDB storage": 800_000_000 / GB * 0.25,
        "SQS requests": 9 * 0.40,
        "Lambda calls": 0.0432 * 0.20,
        "Lambda duration": 25_800 * 0.0000133334,
    }


def test_the_alternatives_by_hand() -> None:
    load = Workload(1_000_000)
    assert dollars(bill(load, "eventbridge_scheduler")) == {
        "Scheduler invocations": 30.0,
        "SQS requests": (30 + 6) * 0.40,
    }
    assert dollars(bill(load, "step_functions")) == {
        "Step Functions transitions": 60_000 * 0.025,
        "SQS requests": (30 + 6) * 0.40,
    }
    one_zone = dollars(bill(load, "rds"))
    assert one_zone["RDS instance"] == 720 * 0.065
    assert one_zone["RDS storage"] == 20 * 0.115
    two_zones = dollars(bill(load, "rds_multi_az"))
    assert two_zones["RDS instance"] == 2 * 720 * 0.065
    assert two_zones["RDS storage"] == 2 * 20 * 0.115
    assert two_zones["Fargate processor"] == 720 * 0.25 * 0.03238


def test_serve_looks_every_second_and_runs_on_fargate() -> None:
    found = quantities(bill(Workload(1000, keep_days=0, dispatch=Dispatch.SERVE)))
    assert found["DynamoDB writes, leases"] == 30_000 * 3  # each job comes alone
    polling = 2_592_000 * (2 + 4 * 2 * 0.5) + 2_592_000 / 2 * (12 + 4)
    assert found["DynamoDB reads, polling"] == polling
    assert found["SQS requests"] == 30_000 + 2 * 3000
    assert found["Fargate memory"] == 720 * 0.5
    assert "Lambda calls" not in found


def test_pulled_jobs_need_neither_sqs_nor_lambda() -> None:
    load = Workload(
        1000, payload_bytes=400, pulled=True, heartbeats=2, workers=3, queues=2, priorities=2
    )
    found = quantities(bill(load))
    assert found["DynamoDB writes, jobs"] == 30_000 * 9
    looking = 3 * 2_592_000 * (3 + 2 * 4 * 3 * 0.5)
    assert found["DynamoDB reads, polling"] == looking + 3 * 2_592_000 / 2 * 12
    assert {name.split()[0] for name in found} == {"DynamoDB"}
    assert {name.split()[0] for name in quantities(bill(load, "rds"))} == {"RDS"}


def test_storage_is_what_waits_and_what_is_kept() -> None:
    load = Workload(1_000_000, keep_days=30, wait_days=10, recovery=True)
    found = quantities(bill(load))
    table = 1_000_000 * (10 * 800 + 30 * 1150) / GB
    assert found["DynamoDB storage"] == table + 1_000_000 * 30 * 250 / GB
    assert found["DynamoDB recovery"] == table


def test_a_record_is_kept_for_a_day_at_least() -> None:
    found = quantities(bill(Workload(1_000_000, keep_days=0, idempotent=True)))
    assert found["DynamoDB storage"] == 1_000_000 * (1230 + 1150) / GB


def test_messages_are_charged_by_64_kb() -> None:
    ten = Workload(10, payload_bytes=64_000, keep_days=0)  # ten of 64,200 bytes: ten chunks
    assert quantities(bill(ten))["SQS requests"] == 30 * (10 + 10 + 1)
    single = Workload(10, payload_bytes=100_000, keep_days=0)
    assert quantities(bill(single, "step_functions"))["SQS requests"] == 300 * 2 + 30 * (16 + 1)


def test_free_tiers_are_taken_off_only_if_asked() -> None:
    load = Workload(400_000)  # 12 million a month
    scheduler = "eventbridge_scheduler"
    assert bill(load, scheduler).parts[0].dollars == pytest.approx(12.0)
    assert bill(load, scheduler, free_tier=True).parts[0].dollars == 0
    assert bill(load, "step_functions", free_tier=True).parts[0].dollars == pytest.approx(599.9)
    assert dollars(bill(load, free_tier=True))["DynamoDB storage"] == 0


def test_every_region_has_every_price_with_unit_date_and_source() -> None:
    for prices in PRICES.values():
        assert prices.keys() == US.keys()
        for price in prices.values():
            assert price.dollars > 0
            assert price.per >= 1
            assert price.unit
            assert datetime.date.fromisoformat(price.looked_up)
            assert price.source.startswith("https://aws.amazon.com/")


def test_no_free_tier_is_taken_off_twice() -> None:
    for load in (Workload(1000), Workload(1000, pulled=True, recovery=True)):
        for one in bills(load, US):
            free = [id(part.price) for part in one.parts if part.price.free]
            assert len(free) == len(set(free))


def test_the_sentences_say_what_was_assumed() -> None:
    text = " ".join(assumptions(Workload(1_000_000), "eu-central-1", free_tier=False))
    assert f"eu-central-1 on {LOOKED_UP}" in text
    assert "Not confirmed for eu-central-1: scheduler_invocation, rds_instance." in text
    assert "Free tiers are left out" in text
    assert "takes 5 write units and 1.5 read units" in text
    assert "a Lambda function looks once a minute at 4 shards (1 queue × 4) with 1 priority" in text
    pulled = Workload(1, pulled=True, heartbeats=1, keep_days=0.5)
    told = " ".join(assumptions(pulled, "us-east-1", free_tier=True))
    assert "(pulled by workers, 1 heartbeat, kept for 0.5 days)" in told
    assert "is taken off each line" in told
    assert "Not confirmed" not in told
    assert "Lambda" not in told


def test_a_load_that_cannot_work_is_warned_of() -> None:
    assert cautions(Workload(1_000_000)) == []
    shards, function, server = cautions(Workload(200_000_000))
    assert "2,315 jobs/s are more than 4 shards can take (2,000 jobs/s)" in shards
    assert "--shards 5" in shards
    assert "--dispatch serve" in function
    assert "db.t4g.medium" in server
    assert "(too small?)" in bill(Workload(200_000_000), "rds").title
