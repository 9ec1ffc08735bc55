"""Items past their time to live, in the hands of the test.

The service deletes them within days, DynamoDB Local within seconds by the clock of the machine. A
test has a clock of its own: here nothing is deleted until it says so.
"""

from __future__ import annotations

from typing import Any

from oncue_bench.dynamodb.requests import Tables
from oncue_bench.dynamodb.wrapped import Call, WrappedClient, bare


class HeldTtl(WrappedClient):
    """Accepts settings of the time to live, and keeps them from the server."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self._attributes: dict[str, str] = {}

    def during(self, call: Call) -> Any:
        match call.method:
            case "update_time_to_live":
                return self._set(call.kwargs["TableName"], call.kwargs["TimeToLiveSpecification"])
            case "describe_time_to_live":
                return {"TimeToLiveDescription": self._told(call.kwargs["TableName"])}
        return self.send(call)

    def expired(self, table: str, now: float) -> list[Call]:
        """The requests by which the service would delete what is past its time, in no order."""
        name, tables = self._attributes[table], Tables(self)
        found = (
            bare(self)
            .get_paginator("scan")
            .paginate(
                TableName=table,
                FilterExpression="#ttl < :now",
                ExpressionAttributeNames={"#ttl": name},
                ExpressionAttributeValues={":now": {"N": str(int(now))}},
            )
        )
        return [
            Call("delete_item", {"TableName": table, "Key": tables[table].key(item)})
            for page in found
            for item in page["Items"]
        ]

    def expire(self, table: str, now: float) -> int:
        """Delete what is past its time; how many items that was."""
        calls = self.expired(table, now)
        for call in calls:
            self.send(call)
        return len(calls)

    def _set(self, table: str, wanted: dict[str, Any]) -> Any:
        self._attributes.pop(table, None)
        if wanted["Enabled"]:
            self._attributes[table] = wanted["AttributeName"]
        return {"TimeToLiveSpecification": wanted}

    def _told(self, table: str) -> dict[str, str]:
        if table not in self._attributes:
            return {"TimeToLiveStatus": "DISABLED"}
        return {"TimeToLiveStatus": "ENABLED", "AttributeName": self._attributes[table]}
