"""HTTP with JSON to servers of other systems. Errors name the server and the status. They never
quote a request or an answer, because these carry passwords, tokens and the data of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import NamedTuple
from urllib.parse import urlsplit

import urllib3
from urllib3 import exceptions

from oncue.core.errors import InvalidInput, ServerUnavailable, ServerUnusable

LARGEST_ANSWER = 8 * 1024 * 1024
REQUEST_SECONDS = 10.0
_USUAL = {"accept": "application/json", "user-agent": "oncue"}


class HttpReply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class Exchange:
    """Kept-alive connections. Nothing is repeated, and no redirection is followed: a token is sent
    to nobody but the server that was named."""

    def __init__(self, patience: Callable[[], float] = lambda: REQUEST_SECONDS) -> None:
        """`patience` tells how many seconds the next request may take."""
        self._patience = patience
        self._pool = urllib3.PoolManager(maxsize=1)

    def ask(self, method: str, url: str, body: bytes | None = None, **headers: str) -> HttpReply:
        sent = {**_USUAL, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if body is not None:
            sent["content-type"] = "application/json"
        try:
            with closing(self._begun(method, url, body, sent)) as answer:
                content = answer.read(LARGEST_ANSWER + 1)
                if len(content) <= LARGEST_ANSWER:
                    answer.release_conn()  # else the rest of it is still to come
        except (exceptions.HTTPError, OSError) as trouble:
            raise _lost(url, trouble) from None
        if len(content) > LARGEST_ANSWER:
            raise ServerUnusable(f"{host(url)} answered with more than {LARGEST_ANSWER:,} bytes.")
        return HttpReply(answer.status, answer.headers, content)

    def _begun(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]
    ) -> urllib3.BaseHTTPResponse:
        return self._pool.request(
            method,
            url,
            body=body,
            headers=headers,
            timeout=urllib3.Timeout(total=self._patience()),
            retries=False,
            redirect=False,
            preload_content=False,
        )

    def close(self) -> None:
        self._pool.clear()


def host(url: str) -> str:
    """The part of a URL that an error may tell."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")


def checked_url(url: str, name: str, *, may_have_query: bool = False) -> str:
    """The URL, without a slash at its end, if it is one of a server; an error names its source and
    does not quote it."""
    try:
        parts = urlsplit(url.strip())
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise InvalidInput("is not the URL of a server, such as https://example.com.", f"/{name}")
    if parts.username is not None or parts.password is not None:
        raise InvalidInput("must not contain credentials.", f"/{name}")
    if parts.fragment or (parts.query and not may_have_query):
        raise InvalidInput("must end with the path: an id is appended to it.", f"/{name}")
    return url.strip() if parts.query else url.strip().rstrip("/")


def _lost(url: str, trouble: Exception) -> ServerUnavailable:
    if isinstance(trouble, exceptions.NewConnectionError | exceptions.ConnectTimeoutError):
        return ServerUnavailable(f"{host(url)} cannot be reached.")
    if isinstance(trouble, exceptions.SSLError):
        return ServerUnavailable(f"{host(url)}: there is no secure connection.")
    if isinstance(trouble, exceptions.TimeoutError):
        return ServerUnavailable(f"{host(url)} did not answer in time.")
    return ServerUnavailable(f"{host(url)} broke off before it answered.")
