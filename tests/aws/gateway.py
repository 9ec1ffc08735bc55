"""An HTTP API of API Gateway and a function URL, as far as a function can tell: which events they
send and how they read the answer. The events have the form of real ones, which were captured on AWS
and published in hotsock/voker (`vokerhttp/testdata`)."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

import pytest

from oncue.aws import api, sandbox

Kind = Literal["http-api", "function-url"]
DOMAINS = {
    "http-api": "sjzepsqsu5.execute-api.us-west-2.amazonaws.com",
    "function-url": "2cxn22odiwguak4feg4jtt7cwm0ziblr.lambda-url.us-west-2.on.aws",
}
TEXT_TYPES = ("text/", "application/json", "application/javascript", "application/xml")
LONG_AGO = 1783711145766  # when the event was captured


class Context:
    """As much of Lambda's context as handlers use."""

    function_name = "oncue-api"

    def __init__(self, seconds: float = 30.0) -> None:
        self.seconds = seconds

    def get_remaining_time_in_millis(self) -> int:
        return int(self.seconds * 1000)


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Gateway:
    """Sends requests to the handler."""

    def __init__(self, kind: Kind = "http-api", stage: str = "$default") -> None:
        self.kind = kind
        self.stage = stage

    def event(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        headers: Sequence[tuple[str, str]] = (),
    ) -> dict[str, Any]:
        """What the function is called with, for a request with this target."""
        path, _, query = target.partition("?")
        if self.stage != "$default":
            path = f"/{self.stage}{path}"
        event: dict[str, Any] = {
            "version": "2.0",
            "routeKey": "$default",
            "rawPath": path if self.kind == "function-url" else unquote(path),
            "rawQueryString": query,
            "headers": self._headers(headers, body),
            "requestContext": self._context(method, unquote(path)),
            "isBase64Encoded": False,
        }
        if cookies := [value for name, value in headers if name.lower() == "cookie"]:
            event["cookies"] = [one.strip() for value in cookies for one in value.split(";")]
        if body:
            media = event["headers"].get("content-type", "")
            is_text = media.startswith(TEXT_TYPES) and "content-encoding" not in event["headers"]
            event["body"] = body.decode() if is_text else b64encode(body).decode()
            event["isBase64Encoded"] = not is_text
        return event

    def _headers(self, headers: Sequence[tuple[str, str]], body: bytes) -> dict[str, str]:
        joined = {"host": DOMAINS[self.kind], "x-forwarded-proto": "https"}
        if body:
            joined["content-length"] = str(len(body))
        for name, value in headers:
            name = name.lower()
            if name != "cookie" or self.kind == "function-url":
                joined[name] = f"{joined[name]},{value}" if name in joined else value
        return joined

    def _context(self, method: str, path: str) -> dict[str, Any]:
        return {
            "accountId": "910345601053",
            "apiId": DOMAINS[self.kind].partition(".")[0],
            "domainName": DOMAINS[self.kind],
            "http": {"method": method, "path": path, "protocol": "HTTP/1.1"},
            "requestId": "ATfSmjLgPHcESJw=",
            "routeKey": "$default",
            "stage": self.stage,
            "time": "10/Jul/2026:19:19:05 +0000",
            "timeEpoch": LONG_AGO,
        }

    def ask(
        self,
        method: str,
        target: str,
        fields: Any = None,
        *,
        body: bytes = b"",
        headers: Sequence[tuple[str, str]] = (),
        seconds: float = 30.0,
    ) -> Reply:
        """One request: `fields` as JSON, or `body` as it is. The function has so many seconds."""
        if fields is not None:
            body = json.dumps(fields).encode()
            headers = [("Content-Type", "application/json"), *headers]
        return reply(api(self.event(method, target, body, headers), Context(seconds)))


def reply(answer: dict[str, Any]) -> Reply:
    """The answer as the client gets it."""
    json.dumps(answer)  # as Lambda does
    body = answer["body"]
    assert isinstance(body, str)
    sent = b64decode(body) if answer["isBase64Encoded"] else body.encode()
    return Reply(answer["statusCode"], answer["headers"], sent)


@contextmanager
def deployed(store: str = "memory:", scopes: str | None = "admin") -> Iterator[None]:
    """A sandbox with these variables, given back in the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONCUE_STORE", store)
        patch.delenv("ONCUE_GATEWAY_SCOPES", raising=False)
        if scopes is not None:
            patch.setenv("ONCUE_GATEWAY_SCOPES", scopes)
        try:
            yield
        finally:
            sandbox.close()
