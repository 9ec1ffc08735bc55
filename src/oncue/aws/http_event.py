"""An HTTP request as an event of payload format 2.0, and the answer to it.

HTTP APIs of API Gateway and function URLs of Lambda share this format. They differ in `rawPath`: a
function URL gives it as it was sent, an HTTP API decodes it.
"""

from __future__ import annotations

import asyncio
import binascii
import json
from base64 import b64decode, b64encode
from typing import Any
from urllib.parse import quote, unquote

from oncue.api.request import HttpAnswer, Request
from oncue.core.errors import InvalidInput

VERSION = "2.0"
EXPECTED = (
    "oncue.aws.api expects payload format 2.0: an HTTP API of API Gateway "
    '(PayloadFormatVersion: "2.0") or a function URL.'
)
DEFAULT_STAGE = "$default"  # the only stage that is not part of the path
ANSWER_LIMIT = 6 * 1024 * 1024 + 100  # bytes of JSON that Lambda takes from a function
HEAD_ROOM = 16 * 1024  # for all but the body
SHORT = 512 * 1024  # a body up to this size fits, however it is written
_PLAIN = "/:@!$&'()*+,;="  # may stand in a path as they are, beside letters, digits and -._~


class HttpEvent:
    """The request that an event carries."""

    def __init__(self, event: Any) -> None:
        context = _context(event)
        http = context["http"]
        self.method: str = http["method"]
        self.domain: str = context.get("domainName") or ""
        self.sent_at: int | None = context.get("timeEpoch")
        """When it arrived at the gateway, in milliseconds."""
        self.path = self._path(event["rawPath"], http.get("path"), context.get("stage"))
        self.query: str = event.get("rawQueryString") or ""
        self.headers = _headers(event)
        self.headers.setdefault("x-request-id", context.get("requestId") or "")
        self.body = _body(event)

    @property
    def is_function_url(self) -> bool:
        return ".lambda-url." in self.domain

    def _path(self, raw: str, decoded: str | None, stage: str | None) -> str:
        """Percent-encoded, without the stage. In a path that was decoded, a slash that belonged to
        a name cannot be told from one that ended it."""
        encoded = self.is_function_url or (raw != decoded and unquote(raw) == decoded)
        path = raw if encoded else quote(raw, _PLAIN)
        prefix = f"/{stage}"
        if stage != DEFAULT_STAGE and (path == prefix or path.startswith(f"{prefix}/")):
            path = path.removeprefix(prefix)
        return path or "/"

    def request(self) -> Request:
        """As the routes read it. It has arrived as a whole, and it is not known whether its client
        still waits."""
        headers = {
            name.encode(): value.encode(errors="replace") for name, value in self.headers.items()
        }
        arrived = Arrived(self.body)
        path, query = self.path.encode(), self.query.encode()
        return Request(self.method, path, query, headers, arrived.receive)


class Arrived:
    """A body that is there."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body

    async def receive(self) -> dict[str, Any]:
        if self._body is None:
            await asyncio.get_running_loop().create_future()  # for ever
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


def as_event(request: Request, answer: HttpAnswer) -> dict[str, Any]:
    """The answer as Lambda hands it to the gateway."""
    content = b"" if request.method == "HEAD" else answer.body
    body, is_base64 = _written(content)
    return {
        "statusCode": answer.status,
        "headers": dict(line.split(": ", 1) for line in answer.head(request.id).splitlines()),
        "body": body,
        "isBase64Encoded": is_base64,
    }


def fits(body: bytes) -> bool:
    """Whether Lambda takes an answer with this body."""
    room = ANSWER_LIMIT - HEAD_ROOM
    if len(body) <= SHORT or _in_base64(body) <= room:
        return True
    text = _text(body)
    return len(body) <= room and text is not None and _as_json(text) <= room


def _written(body: bytes) -> tuple[str, bool]:
    """The body as the answer has it, and whether that is base64: if it is not text, or if it is
    long and base64 is shorter than text with escapes."""
    text = _text(body)
    if text is None or (len(body) > SHORT and _as_json(text) > _in_base64(body)):
        return b64encode(body).decode(), True
    return text, False


def _text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _in_base64(body: bytes) -> int:
    return -(-len(body) // 3) * 4 + 2


def _as_json(text: str) -> int:
    """Bytes, with every character beyond ASCII escaped, as some versions of the runtime do."""
    return len(json.dumps(text))


def _context(event: Any) -> dict[str, Any]:
    """What the gateway says of the request; refuses all other events."""
    fields: dict[str, Any] = event if isinstance(event, dict) else {}
    version = fields.get("version")
    if version != VERSION:
        found = f"the payload format is {version}" if version else "this is not an event of HTTP"
        if "httpMethod" in fields:
            found = "this is an event of payload format 1.0, as REST APIs and load balancers send"
        raise InvalidInput(f"{found}. {EXPECTED}", "/event/version")
    context: dict[str, Any] = fields.get("requestContext") or {}
    if "rawPath" not in fields or "method" not in context.get("http", {}):
        text = f"it has no requestContext.http.method or no rawPath. {EXPECTED}"
        raise InvalidInput(text, "/event/requestContext")
    return context


def _headers(event: dict[str, Any]) -> dict[str, str]:
    """By names in lower case. The gateway joins repeated ones by commas; cookies come apart."""
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    if cookies := event.get("cookies"):
        headers["cookie"] = "; ".join(cookies)
    return headers


def _body(event: dict[str, Any]) -> bytes:
    text: str = event.get("body") or ""
    if not event.get("isBase64Encoded"):
        return text.encode(errors="surrogatepass")
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput("it is said to be base64, and is not.", "/event/body") from None
