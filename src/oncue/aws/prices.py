"""Prices of AWS in US dollars, as they were looked up: the data of `oncue cost`.

Prices change, and an account may have others. Check them at `source` before you rely on them, and
change them here and nowhere else, together with LOOKED_UP.
"""

from __future__ import annotations

from dataclasses import dataclass

LOOKED_UP = "2026-11-17"
"""The day on which they were looked up; some of the pages were weeks or months old then."""

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """What so many units cost in one region, without taxes and discounts."""

    dollars: float
    per: int
    """So many units cost `dollars`."""
    unit: str
    free: float
    """So many units a month are free for every account, once over all that uses them."""
    source: str
    """Where to check it."""
    looked_up: str = LOOKED_UP
    confirmed: bool = True
    """False: no page was found that names it for this region."""

    def of(self, quantity: float, *, free_tier: bool = False) -> float:
        """Dollars for so many units."""
        charged = max(0.0, quantity - self.free) if free_tier else quantity
        return charged * self.dollars / self.per


_DYNAMODB = "https://aws.amazon.com/dynamodb/pricing/on-demand/"
_SQS = "https://aws.amazon.com/sqs/pricing/"
_LAMBDA = "https://aws.amazon.com/lambda/pricing/"
_EVENTBRIDGE = "https://aws.amazon.com/eventbridge/pricing/"
_STEP_FUNCTIONS = "https://aws.amazon.com/step-functions/pricing/"
_FARGATE = "https://aws.amazon.com/fargate/pricing/"
_RDS = "https://aws.amazon.com/rds/postgresql/pricing/"

# name: (per, unit, free a month, source)
_KINDS = {
    "dynamodb_write": (MILLION, "write units", 0, _DYNAMODB),
    "dynamodb_read": (MILLION, "read units", 0, _DYNAMODB),
    "dynamodb_storage": (1, "GB", 25, _DYNAMODB),
    "dynamodb_recovery": (1, "GB", 0, _DYNAMODB),
    "sqs_request": (MILLION, "requests", MILLION, _SQS),  # a standard queue
    "lambda_request": (MILLION, "calls", MILLION, _LAMBDA),
    "lambda_duration": (1, "GB-seconds", 400_000, _LAMBDA),  # on Arm
    "scheduler_invocation": (MILLION, "invocations", 14 * MILLION, _EVENTBRIDGE),
    "step_transition": (1000, "transitions", 4000, _STEP_FUNCTIONS),  # standard workflows
    "fargate_cpu": (1, "vCPU-hours", 0, _FARGATE),  # Linux on Arm
    "fargate_memory": (1, "GB-hours", 0, _FARGATE),  # Linux on Arm
    "rds_instance": (1, "hours", 0, _RDS),  # one db.t4g.medium, PostgreSQL, in one zone
    "rds_storage": (1, "GB", 0, _RDS),  # gp3, in one zone
}

_DOLLARS = {
    "us-east-1": {
        "dynamodb_write": 0.625,
        "dynamodb_read": 0.125,
        "dynamodb_storage": 0.25,
        "dynamodb_recovery": 0.20,
        "sqs_request": 0.40,
        "lambda_request": 0.20,
        "lambda_duration": 0.0000133334,
        "scheduler_invocation": 1.00,
        "step_transition": 0.025,
        "fargate_cpu": 0.03238,
        "fargate_memory": 0.00356,
        "rds_instance": 0.065,
        "rds_storage": 0.115,
    },
    "eu-central-1": {
        "dynamodb_write": 0.7625,
        "dynamodb_read": 0.1525,
        "dynamodb_storage": 0.306,
        "dynamodb_recovery": 0.2448,
        "sqs_request": 0.40,
        "lambda_request": 0.20,
        "lambda_duration": 0.0000133334,
        "scheduler_invocation": 1.00,
        "step_transition": 0.025,
        "fargate_cpu": 0.03725,
        "fargate_memory": 0.00409,
        "rds_instance": 0.076,
        "rds_storage": 0.137,
    },
}

# The price of EventBridge Scheduler is that of us-east-1; that of the instance is four times the
# price of a db.t4g.micro.
_UNCONFIRMED = {"eu-central-1": {"scheduler_invocation", "rds_instance"}}

PriceList = dict[str, Price]
"""The prices of one region by name."""

PRICES: dict[str, PriceList] = {
    region: {
        name: Price(dollars, *_KINDS[name], confirmed=name not in _UNCONFIRMED.get(region, ()))
        for name, dollars in priced.items()
    }
    for region, priced in _DOLLARS.items()
}
"""The price lists by region."""
