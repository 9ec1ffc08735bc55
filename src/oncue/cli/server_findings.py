"""What the doctor looks at when the jobs are at a server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from oncue import __version__
from oncue.cli import server
from oncue.cli.findings import Checks, DoctorFinding, bad, checked, ok, warn
from oncue.core.access import Scope, allows
from oncue.core.errors import AccessDenied, OncueError
from oncue.wire.server import Allowed, Readiness

if TYPE_CHECKING:
    from oncue.client import Client

T = TypeVar("T")


def examine(cue: Client) -> tuple[dict[str, Any], list[DoctorFinding]]:
    """The facts about the server, and what was found."""
    try:
        greeting = server.greet(cue)
    except OncueError as error:  # its text has the next step in it
        return {}, list(checked({"server": [bad(str(error))]}))
    facts = {"version": greeting.version, "clock_ahead_seconds": greeting.ahead_seconds}
    checks: Checks = {
        "server": [ok(f"{cue.connection.address.url} answers.")],
        "version": _version(greeting.version),
        "readiness": _ready(cue, facts),
        "token": _token(cue, facts),
        "server's clock": _skew(greeting),
    }
    return facts, list(checked(checks))


def _version(version: str) -> Iterator[DoctorFinding]:
    if version == __version__:
        yield ok(f"{version}, as here.")
    else:
        todo = "Install the same version at both ends, so that each knows what the other can do."
        yield warn(f"the server has {version}, here is {__version__}.", todo)


def _ready(cue: Client, facts: dict[str, Any]) -> Iterator[DoctorFinding]:
    try:
        ready = _asked(cue, "/readyz", Readiness)
    except OncueError as error:
        yield bad(str(error), "Run 'oncue doctor' where its store is.")
        return
    facts |= {"store": ready.store, "schema": ready.schema}
    yield ok(f"its store ({ready.store}) answers.")


def _token(cue: Client, facts: dict[str, Any]) -> Iterator[DoctorFinding]:
    try:
        scopes = _asked(cue, "/access", Allowed).scopes
    except AccessDenied as refusal:
        yield bad(str(refusal), "Show one that it knows, with ONCUE_TOKEN=…")
        return
    facts["scopes"] = scopes
    text = f"this is allowed: {', '.join(scopes)}."
    if allows(scopes, Scope.READ):
        yield ok(text)
    else:
        todo = "Looking needs the scope read: oncue token create --scope read, where its store is."
        yield bad(text, todo)


def _skew(greeting: server.Greeting) -> Iterator[DoctorFinding]:
    if greeting.ahead_seconds is None:
        todo = "Let every proxy in between pass the header Date on."
        yield warn("the answer carries no Date, so it is not known.", todo)
    elif greeting.skewed:
        todo = "Keep both right with NTP: due times given here are meant by the server's clock."
        yield warn(f"is {greeting.skew} this machine's.", todo)
    else:
        yield ok("agrees with this machine's, to about a second.")


def _asked(cue: Client, path: str, kind: type[T]) -> T:
    from oncue.client.connection import Call

    body = cue.connection.ask_once(Call("GET", path))
    return cue.connection.value(body, kind, lambda value: value)
