"""An AgendaProgress endpoint: read one, and write it back if it has not changed since."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

from oncue.aws.exchange import Exchange, HttpReply, host
from oncue.aws.identity import Identity, Secret
from oncue.core.errors import AccessDenied, ServerError, ServerUnavailable, ServerUnusable

CHANGED = (409, 412)
UNAUTHORISED = 401


class Seen(NamedTuple):
    """One answer, and the ETag that proves to have seen it, if there is one."""

    body: bytes
    etag: str | None


class AgendaEndpoint:
    """Signs in when it is first asked, and again when a token that was good is refused."""

    def __init__(self, url: str, identity: Identity, exchange: Exchange) -> None:
        self._url = url
        self._identity = identity
        self._exchange = exchange
        self._token: Secret | None = None
        self._may_sign_in = True

    def get(self, record_id: str) -> Seen:
        reply = self._ask("GET", record_id)
        if not reply.is_success:
            raise self._trouble("GET", reply)
        return Seen(reply.body, reply.headers.get("etag"))

    def put(self, record_id: str, body: bytes, etag: str | None) -> bool:
        """Write it. False: it has changed since it was seen, and nothing was written."""
        seen = {} if etag is None else {"if_match": etag}
        reply = self._ask("PUT", record_id, body, **seen)
        if reply.status in CHANGED:
            return False
        if not reply.is_success:
            raise self._trouble("PUT", reply)
        return True

    def _ask(
        self, method: str, record_id: str, body: bytes | None = None, **headers: str
    ) -> HttpReply:
        url = f"{self._url}/{quote(record_id, safe='')}"
        reply = self._ask_once(method, url, body, headers)
        if reply.status == UNAUTHORISED and self._may_sign_in:
            # Once for each token that was good: a wrong password, sent for every record, would
            # lock the account.
            self._may_sign_in, self._token = False, None
            reply = self._ask_once(method, url, body, headers)
        if reply.status != UNAUTHORISED:
            self._may_sign_in = True
        return reply

    def _ask_once(
        self, method: str, url: str, body: bytes | None, headers: dict[str, str]
    ) -> HttpReply:
        if self._token is None:
            self._token = self._signed_in()
        bearer = f"Bearer {self._token.reveal()}"
        return self._exchange.ask(method, url, body, authorization=bearer, **headers)

    def _signed_in(self) -> Secret:
        try:
            return self._identity.token(self._exchange)
        except ServerError as refused:
            raise SignInFailed(str(refused)) from None

    def _trouble(self, method: str, reply: HttpReply) -> ServerError:
        text = f"{host(self._url)} answered {method} with status {reply.status}."
        if reply.status in (UNAUTHORISED, 403):
            return AccessDenied(text)
        return ServerUnavailable(text) if reply.status >= 500 else ServerUnusable(text)


class SignInFailed(ServerError):
    """Without a token no record can be read: the run ends."""
