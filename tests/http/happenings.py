"""Rules and events over HTTP, said briefly. Times are seconds since the start of 2021."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from tests.http.server import Reply, Server

START = datetime(2021, 1, 1, tzinfo=UTC)


def stamp(seconds: float) -> str:
    when = START + timedelta(microseconds=round(seconds * 1_000_000))
    return when.isoformat(timespec="microseconds").replace("+00:00", "Z")


def place(rule: str, *more: str) -> str:
    """The path of a rule."""
    return "/".join(["/rules", quote(rule, safe=""), *more])


class Happenings:
    """One rule of a server, with resources and a queue of its own: nobody delivers its jobs."""

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.name = name
        self.folder = {"type": "FILE", "resourceId": f"/{name}/", "lifeDuration": 3600}
        self.cron = self.waits_for("cron", 0, "TIME_BASED")

    def waits_for(self, resource: str, life: int, kind: str = "TABLE") -> dict[str, Any]:
        return {"type": kind, "resourceId": f"{self.name}.{resource}", "lifeDuration": life}

    def hourly(self) -> Happenings:
        """The rule: a file, within the hour before the cron."""
        assert self.rule(self.folder, self.cron).status == 201
        return self

    def rule(self, *dependencies: dict[str, Any], **fields: Any) -> Reply:
        told = {"dependencies": dependencies, "queue": self.name, **fields}
        return self.server.put(place(self.name), told)

    def file_at(self, seconds: float, name: str = "a", **more: Any) -> dict[str, Any]:
        return _event("FILE", f"/{self.name}/{name}", seconds, more)

    def cron_at(self, seconds: float, **more: Any) -> dict[str, Any]:
        return _event("TIME_BASED", f"{self.name}.cron", seconds, more)

    def table_at(self, seconds: float, name: str, **more: Any) -> dict[str, Any]:
        return _event("TABLE", f"{self.name}.{name}", seconds, more)

    def post(self, event: dict[str, Any], status: int = 201) -> Any:
        """What one event was answered with."""
        reply = self.server.post("/events", event)
        assert reply.status == status, reply.body
        [answer] = reply.json["events"]
        return answer

    def post_all(self, *events: dict[str, Any]) -> list[Any]:
        return [self.post(event) for event in events]

    def instants(self) -> list[str]:
        """When the rule fired, by its jobs, in order."""
        items = pages(self.server, f"/jobs?queue={self.name}&limit=500")
        assert {job["rule"] for job in items} <= {self.name}
        return sorted(job["instant"] for job in items)

    def stands(self, seconds: float) -> Any:
        return self.server.get(f"{place(self.name, 'explain')}?at={stamp(seconds)}").json


def pages(server: Server, address: str) -> list[Any]:
    """Everything that a listing has."""
    page = server.get(address).json
    found = list(page["items"])
    while page["next_cursor"] is not None:
        page = server.get(f"{address}&cursor={quote(page['next_cursor'])}").json
        found += page["items"]
    return found


def _event(kind: str, resource: str, seconds: float, more: dict[str, Any]) -> dict[str, Any]:
    event = {"eventType": kind, "eventTimestamp": stamp(seconds), "eventResourceId": resource}
    return {**event, **more}
