"""The server behind `--url`: greeted before it is asked, so that trouble is told at once."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from oncue import config
from oncue.cli import output
from oncue.core import errors
from oncue.core.moment import Moment, from_datetime
from oncue.wire.server import Alive

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncue.client import Client
    from oncue.client.connection import Call, Connection, Reply

GREETING_SECONDS = 10.0
SKEW_SECONDS = 5.0  # a Date tells whole seconds, and the way takes time


class Greeting(NamedTuple):
    version: str
    ahead_seconds: float | None
    """How far the server's clock is ahead of this machine's, to a second or so, if it told."""

    @property
    def skewed(self) -> bool:
        return abs(self.ahead_seconds or 0.0) > SKEW_SECONDS

    @property
    def skew(self) -> str:
        """Such as `12 s ahead of`."""
        ahead = self.ahead_seconds or 0.0
        return f"{output.length(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'}"


def client(settings: Mapping[str, config.Value]) -> Client:
    """The client that the settings describe. Nothing has been asked yet."""
    from oncue.client import Client

    try:
        return Client(settings["url"].value, settings["token"].value)
    except errors.InvalidInput as problem:
        name = problem.pointer.removeprefix("/")
        if name not in settings:
            raise
        raise errors.InvalidInput(problem.detail, config.written(settings[name], name)) from None


def greet(cue: Client) -> Greeting:
    """Ask the server, once, what it is. Raises if there is no answer, or not one of oncue."""
    from oncue.client.connection import Call

    request = Call("GET", "/livez", timeout_seconds=GREETING_SECONDS)
    here = cue.clock.now()
    answer = cue.connection.answer_once(request)
    version = _version(cue.connection, answer, request)
    there = _date(answer)
    return Greeting(version, None if there is None else (there - here) / 1000)


def _date(answer: Reply) -> Moment | None:
    try:
        return from_datetime(parsedate_to_datetime(answer.headers.get("date", "")))
    except (ValueError, errors.InvalidInput):  # none, or none that can be read
        return None


def _version(connection: Connection, answer: Reply, request: Call) -> str:
    try:
        return msgspec.json.decode(connection.read(answer, request), type=Alive).version
    except (errors.ServerUnavailable, errors.AccessDenied):
        raise
    except (errors.OncueError, msgspec.MsgspecError, UnicodeError):
        raise errors.ServerUnusable(
            f"{connection.address.url} answers, but not as oncue does. Check the URL: it is the "
            "one that 'oncue serve' prints, and every proxy in between must pass /livez on."
        ) from None


def warn_of_skew(greeting: Greeting, url: str) -> None:
    """Relative times, such as 'in 5 min', are computed with this machine's clock."""
    if greeting.skewed:
        output.note(
            f"The clock of {url} is {greeting.skew} this machine's: times such as 'in …' and "
            "'… ago' are wrong by as much."
        )
