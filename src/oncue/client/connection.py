"""HTTP to one server: kept-alive connections, safe repetition, and errors that say what to do.

What is repeated: a request that never left; one that was turned away for now (408, 429, 503; not if
the problem is `lasting`); and, where `repeatable` says that doing it twice is doing it once, also
one whose answer was lost.
"""

from __future__ import annotations

import random
import ssl
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import msgspec
import urllib3
from urllib3 import BaseHTTPResponse, exceptions

from oncue.client.address import Address
from oncue.client.errors import error_of, problem_of
from oncue.core import errors
from oncue.core.duration import spoken
from oncue.engine.alarm import Alarm
from oncue.ports.clock import Clock
from oncue.wire.problems import MEDIA_TYPE as PROBLEM_TYPE
from oncue.wire.problems import Problem

JSON_TYPE = "application/json"
CONNECTIONS_KEPT = 64
CONNECT_SECONDS = 10.0
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
TURNED_AWAY = (408, 429, 503)
NOT_SUPPORTED = 501  # by the store of the server: trying again changes nothing

S = TypeVar("S")
T = TypeVar("T")


class Call(NamedTuple):
    """`path` is below the address, percent-encoded; `job_id` is the job it is about, if any."""

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = {}
    repeatable: bool = True
    """Whether asking twice does no more than asking once."""
    wait_seconds: float = 0.0
    """How long the server may take on purpose."""
    timeout_seconds: float | None = None
    """How long to wait for the answer beyond that; None: as long as the connection says."""
    job_id: str = ""


class Reply(NamedTuple):
    status: int
    body: bytes
    media_type: str
    headers: Mapping[str, str]


class AnswerLost(errors.ServerUnavailable):
    """The request may have been carried out: look before sending it again."""


class Connection:
    """Safe to use from many threads. `timeout_seconds` bounds the wait for one answer, and for how
    long a call is begun again: altogether at most twice that."""

    def __init__(
        self, address: Address, bearer: str | None, timeout_seconds: float, clock: Clock
    ) -> None:
        self.address = address
        self.timeout_seconds = timeout_seconds
        self.on_trouble: Callable[[str], None] = lambda text: None
        """Called once for each call that has to be begun again: why, and for how long."""
        self._headers = {"accept": f"{JSON_TYPE}, {PROBLEM_TYPE}", "user-agent": "oncue"}
        if bearer is not None:
            self._headers["authorization"] = f"Bearer {bearer}"
        self._clock = clock
        self._alarm = Alarm(clock)
        secure = address.scheme == "https"
        pool = urllib3.HTTPSConnectionPool if secure else urllib3.HTTPConnectionPool
        self._pool = pool(address.host, address.port, maxsize=CONNECTIONS_KEPT)

    def __repr__(self) -> str:
        return f"Connection({self.address.url!r})"

    def ask(self, request: Call) -> bytes:
        """The body of the answer, JSON; or the error that the answer tells of."""
        return self.read(self.answer(request), request)

    def answer(self, request: Call) -> Reply:
        """The answer, once it is more than passing trouble: a success, or not."""
        began = self._clock.monotonic()
        ends = began + self.timeout_seconds
        pause, tries = FIRST_PAUSE_SECONDS, 0
        while True:
            after = 0.0
            try:
                answer = self.answer_once(request)
            except AnswerLost:
                raise
            except errors.ServerUnavailable as lost:
                trouble: errors.OncueError = lost
            else:
                if not _passing(answer, request):
                    return answer
                trouble, after = self._trouble_of(answer, request), _retry_after(answer)
            rest = max(after, pause * random.uniform(0.5, 1.0))
            now, tries = self._clock.monotonic(), tries + 1
            if self._alarm.stopped or now + rest >= ends:
                raise trouble if tries == 1 else self._lasting(trouble, now - began)
            if tries == 1:
                self.on_trouble(f"{_why(trouble)} Trying again for {spoken(ends - now)}.")
            self._alarm.pause(rest)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def _lasting(self, trouble: errors.OncueError, seconds: float) -> errors.ServerUnavailable:
        """What is raised after several tries."""
        return errors.ServerUnavailable(
            f"{_why(trouble)} It was tried for {spoken(seconds)}. 'oncue doctor --url "
            f"{self.address.url}' looks for what is wrong."
        )

    def ask_once(self, request: Call) -> bytes:
        """As `ask`, for those who repeat it themselves."""
        return self.read(self.answer_once(request), request)

    def read(self, answer: Reply, request: Call) -> bytes:
        """The body of a success; or the error that the answer tells of."""
        if answer.status in (200, 201, 202, 204):
            if answer.body and answer.media_type != JSON_TYPE:
                raise self.not_ours(f"answered with {answer.media_type or 'no media type'}")
            return answer.body
        if 300 <= answer.status < 400:
            target = answer.headers.get("location", "elsewhere")
            raise self.not_ours(f"redirects to {target!r}")
        raise self._trouble_of(answer, request)

    def value(self, body: bytes, shape: type[S], value: Callable[[S], T]) -> T:
        """What a body of this shape says. One that cannot be read was not written by oncue."""
        try:
            return value(msgspec.json.decode(body, type=shape))
        except (msgspec.MsgspecError, ValueError, errors.InvalidInput):
            raise self.not_ours("answered with JSON of another shape") from None

    def not_ours(self, what: str) -> errors.ServerUnusable:
        return errors.ServerUnusable(
            f"{self.address.url} {what}: that is not how oncue answers. "
            "Check the URL, and any proxy in between."
        )

    def close(self) -> None:
        """Give the connections back, and repeat nothing more."""
        self._alarm.stop()
        self._pool.close()

    def headers_of(self, request: Call) -> dict[str, str]:
        media = {} if request.body is None else {"content-type": JSON_TYPE}
        return {**self._headers, **media, **request.headers}

    def patience(self, request: Call) -> tuple[float, float]:
        """How many seconds to wait for a connection, and for each part of the answer."""
        limit = self.timeout_seconds if request.timeout_seconds is None else request.timeout_seconds
        return min(CONNECT_SECONDS, limit), limit + request.wait_seconds

    def lost(self, trouble: Exception, request: Call) -> errors.ServerError:
        """No answer came. The text of the trouble may quote the request, so it is not told."""
        url = self.address.url
        if isinstance(trouble, exceptions.ClosedPoolError):
            return errors.ServerError(f"{url}: this client is closed.")
        if isinstance(trouble, exceptions.SSLError | ssl.SSLError):
            return errors.ServerUnusable(
                f"{url}: there is no secure connection. Check the server's certificate, and "
                "whether it uses https at all."
            )
        if isinstance(trouble, exceptions.NewConnectionError | exceptions.ConnectTimeoutError):
            return errors.ServerUnavailable(
                f"{url} cannot be reached. Start it with 'oncue serve', or check the URL."
            )
        slow = isinstance(trouble, exceptions.ReadTimeoutError | TimeoutError)
        how = "did not answer in time" if slow else "broke off before it answered"
        if request.repeatable:
            return errors.ServerUnavailable(f"{url} {how}. Call again: it is safe to repeat.")
        return self._answer_lost(how)

    def _answer_lost(self, how: str) -> AnswerLost:
        return AnswerLost(
            f"{self.address.url} {how}, so it is not known what it did, and the request is not "
            "repeated. Jobs that it may have claimed are taken back when their lease ends."
        )

    def answer_once(self, request: Call) -> Reply:
        """As `answer`, for those who repeat it themselves."""
        connect, read = self.patience(request)
        try:
            answer = self._pool.urlopen(
                request.method,
                self.address.prefix + request.path,
                body=request.body,
                headers=self.headers_of(request),
                timeout=urllib3.Timeout(connect=connect, read=read),
                retries=False,
                redirect=False,
            )
            return answer_of(answer)
        except exceptions.HTTPError as trouble:
            raise self.lost(trouble, request) from None

    def _trouble_of(self, answer: Reply, request: Call) -> errors.OncueError:
        if _broken(answer) and not request.repeatable:
            return self._answer_lost(f"answered with status {answer.status}")
        problem = _problem_in(answer)
        if problem is not None:
            problem.status = answer.status
            return error_of(problem, request.job_id)
        if answer.status in (401, 403):
            return errors.AccessDenied(
                f"{self.address.url} refuses access (status {answer.status})."
            )
        if answer.status in TURNED_AWAY or _broken(answer):
            return errors.ServerUnavailable(
                f"{self.address.url} answered with status {answer.status}; try again later."
            )
        return self.not_ours(f"answered with status {answer.status} and no problem document")


def answer_of(answer: BaseHTTPResponse) -> Reply:
    """The whole of an answer, read to its end."""
    body = answer.data
    media_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    return Reply(answer.status, body, media_type, answer.headers)


def path(*segments: str) -> str:
    """A path of these names, each of them encoded."""
    return "".join("/" + quote(segment, safe="") for segment in segments)


def query(fields: Mapping[str, Any]) -> str:
    """These fields as a query; those that are None are left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""


def _passing(answer: Reply, request: Call) -> bool:
    """Whether the same request may fare better in a moment, and may be sent again."""
    if answer.status in TURNED_AWAY:
        problem = _problem_in(answer)
        return problem is None or not problem.lasting
    return _broken(answer) and request.repeatable


def _problem_in(answer: Reply) -> Problem | None:
    return problem_of(answer.body) if answer.media_type == PROBLEM_TYPE else None


def _why(trouble: errors.OncueError) -> str:
    """Its text, without the advice to do what is done here."""
    return str(trouble).removesuffix(" Try again in a moment.")


def _broken(answer: Reply) -> bool:
    """Whether something went wrong there, or on the way: it may have been done all the same."""
    return answer.status >= 500 and answer.status not in (*TURNED_AWAY, NOT_SUPPORTED)


def _retry_after(answer: Reply) -> float:
    """How many seconds the server asks to wait. A date is ignored: its clock may differ."""
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isdecimal() and len(text) <= 6 else 0.0
