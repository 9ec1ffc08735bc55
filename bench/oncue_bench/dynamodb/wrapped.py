"""A boto3 client of DynamoDB seen through a wrapper: every operation passes `during`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

READS = frozenset({"get_item", "batch_get_item", "query", "scan", "transact_get_items"})
SINGLE_WRITES = frozenset({"put_item", "update_item", "delete_item"})
WRITES = SINGLE_WRITES | {"batch_write_item", "transact_write_items", "batch_execute_statement"}
PARTIQL = frozenset({"execute_statement", "execute_transaction"})


class Call(NamedTuple):
    """One request, about to be made."""

    method: str
    kwargs: Mapping[str, Any]


class WrappedClient:
    """Has whatever the client has. Paginators and waiters go past it, to the client itself."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def __getattr__(self, name: str) -> Any:
        if name in self.client.meta.method_to_api_mapping:
            return partial(self._called, name)
        return getattr(self.client, name)

    def during(self, call: Call) -> Any:
        """Make the call by `send`, or not."""
        return self.send(call)

    def send(self, call: Call) -> Any:
        return getattr(self.client, call.method)(**call.kwargs)

    def _called(self, method: str, /, **kwargs: Any) -> Any:
        return self.during(Call(method, kwargs))


def bare(client: Any) -> Any:
    """The client inside all wrappers: what it is asked, nobody counts or disturbs."""
    while isinstance(client, WrappedClient):
        client = client.client
    return client


def changed(call: Call, **kwargs: Any) -> Call:
    """The same call with other arguments."""
    return call._replace(kwargs={**call.kwargs, **kwargs})
