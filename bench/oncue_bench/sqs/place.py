"""Where W13 measures: on a ministack (SQS) and a DynamoDB Local of its own. Each measurement has a
queue of its own with a random name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from uuid import uuid4

from oncue.sinks.sqs_address import SqsAddress
from oncue_bench.dynamodb.place import REGION

STORE = "sqs"
"""As the user of the benchmark names it."""


@contextmanager
def own_queue(endpoint: str) -> Iterator[str]:
    """The URL of the sink of a new queue, which is deleted at the end."""
    name = f"bench-{uuid4().hex}"
    client = SqsAddress(name, REGION, endpoint).connect()
    url = client.create_queue(QueueName=name)["QueueUrl"]
    try:
        yield f"sqs://{name}?region={REGION}&endpoint={endpoint}"
    finally:
        client.delete_queue(QueueUrl=url)


@cache
def endpoint() -> str:
    """The address of SQS. The emulator ends with this process, in whatever way."""
    from tests.servers import ministack_endpoint  # only in a clone

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        os.environ.setdefault(name, "any")
    return ministack_endpoint()
