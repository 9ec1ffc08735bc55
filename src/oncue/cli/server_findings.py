"""What the doctor looks at when the jobs are at a server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from oncue import __version__
from oncue.cli import server
from oncue.cli.findings import Finding, bad, ok, warn
from oncue.core.access import Scope, allows
from oncue.core.errors import AccessDenied, OncueError

if TYPE_CHECKING:
    from oncue.client import Client


class _Ready(msgspec.Struct):
    store: str
    schema: Any = None


class _Allowed(msgspec.Struct):
    scopes: list[str]


def server_facts(cue: Client) -> tuple[dict[str, Any], list[Finding]]:
    """The facts about the server, and what was found. Anything bad: looking further is no use."""
    url = cue.connection.address.url
    try:
        greeting = server.greet(cue)
    except OncueError as error:  # its text has the next step in it
        return {}, [bad("server", str(error), "")]
    facts: dict[str, Any] = {
        "version": greeting.version,
        "clock_ahead_seconds": greeting.ahead_seconds,
    }
    found = [
        ok("server", f"{url} answers."),
        _version(greeting.version),
        *_ready(cue, facts),
        *_token(cue, facts),
        _skew(greeting),
    ]
    return facts, found


def _version(version: str) -> Finding:
    if version == __version__:
        return ok("version", f"{version}, as here.")
    return warn(
        "version",
        f"the server has {version}, here is {__version__}.",
        "Install the same version at both ends, so that each knows what the other can do.",
    )


def _ready(cue: Client, facts: dict[str, Any]) -> Iterator[Finding]:
    try:
        ready = _asked(cue, "/readyz", _Ready)
    except OncueError as error:
        yield bad("readiness", str(error), "Run 'oncue doctor' where its store is.")
        return
    facts |= {"store": ready.store, "schema": ready.schema}
    yield ok("readiness", f"its store ({ready.store}) answers.")


def _token(cue: Client, facts: dict[str, Any]) -> Iterator[Finding]:
    try:
        scopes = _asked(cue, "/access", _Allowed).scopes
    except AccessDenied as refusal:
        yield bad("token", str(refusal), "Show one that it knows, with ONCUE_TOKEN=…")
        return
    except OncueError as error:
        yield bad("token", str(error), "")
        return
    facts["scopes"] = scopes
    text = f"this is allowed: {', '.join(scopes)}."
    if allows([Scope(one) for one in scopes if one in list(Scope)], Scope.READ):
        yield ok("token", text)
    else:
        yield bad(
            "token",
            text,
            "Looking needs the scope read: oncue token create --scope read, where its store is.",
        )


def _skew(greeting: server.Greeting) -> Finding:
    if greeting.ahead_seconds is None:
        return warn(
            "server's clock",
            "the answer carries no Date, so it is not known.",
            "Let whatever stands between pass the header Date on.",
        )
    if not greeting.skewed:
        return ok("server's clock", "goes with this machine's, to a second or so.")
    return warn(
        "server's clock",
        f"is {greeting.skew} this machine's.",
        "Keep both right with NTP: due times given here are meant by the server's clock.",
    )


def _asked(cue: Client, path: str, kind: type[Any]) -> Any:
    from oncue.client.connection import Request

    body = cue.connection.ask_once(Request("GET", path))
    return cue.connection.value(body, kind, lambda value: value)
