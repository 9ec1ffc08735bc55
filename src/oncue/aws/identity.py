"""Signing in to the identity server of another system, with a password that KMS encrypted.

`sign_in` is the part that differs from server to server: assign another function of the same
parameters to `oncue.aws.identity.sign_in` to replace it. Neither the password nor the token is ever
part of a log line, an error or a report.
"""

from __future__ import annotations

import base64
import binascii
import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from oncue.aws.clients import client
from oncue.aws.exchange import Exchange, host
from oncue.core.errors import AccessDenied, InvalidInput, ServerUnavailable, ServerUnusable

ENCRYPTED = "IDM_ENCRYPTED_PASS"
_TOKEN = re.compile(r"[\x21-\x7e]+", re.ASCII)


class Secret:
    """A text that `reveal` returns, and that is in no log line or error by accident."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Secret(…)"


class Identity(NamedTuple):
    """Who signs in, and where."""

    url: str
    user: str
    encrypted: str
    """The password, encrypted by KMS, as base64."""

    def token(self, exchange: Exchange) -> Secret:
        """Sign in. The password is decrypted each time, so that nothing keeps it."""
        return Secret(sign_in(exchange, self.url, self.user, _decrypted(self.encrypted)))


class Granted(msgspec.Struct):
    """The answer of an identity server."""

    token: str


def sign_in(exchange: Exchange, url: str, user: str, password: str) -> str:
    """`POST {username, password}` to the identity server; the token that it answers with."""
    body = msgspec.json.encode({"username": user, "password": password})
    reply = exchange.ask("POST", url, body)
    if reply.status in (400, 401, 403):
        raise AccessDenied(f"{host(url)} refused the sign-in (status {reply.status}).")
    if not reply.is_success:
        raise ServerUnavailable(f"{host(url)} answered the sign-in with status {reply.status}.")
    try:
        token = msgspec.json.decode(reply.body, type=Granted).token
    except msgspec.MsgspecError:
        token = ""
    if not _TOKEN.fullmatch(token):
        raise ServerUnusable(f"{host(url)} answered the sign-in without a usable token.")
    return token


def _decrypted(encrypted: str) -> str:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        ciphertext = base64.b64decode("".join(encrypted.split()), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput("is not base64.", f"/{ENCRYPTED}") from None
    try:
        with _silence():
            answer = client("kms").decrypt(CiphertextBlob=ciphertext)
        return str(answer["Plaintext"], "utf-8")
    except ClientError as refused:
        code = refused.response.get("Error", {}).get("Code", "unknown error")
        raise AccessDenied(f"KMS did not decrypt {ENCRYPTED}: {code}.") from None
    except BotoCoreError as lost:
        kind = type(lost).__name__
        raise ServerUnavailable(f"KMS did not decrypt {ENCRYPTED}: {kind}.") from None
    except UnicodeDecodeError:
        raise InvalidInput("is not text once it is decrypted.", f"/{ENCRYPTED}") from None


_quiet = threading.local()


def _is_told(record: logging.LogRecord) -> bool:
    return not getattr(_quiet, "on", False)


@contextmanager
def _silence() -> Iterator[None]:
    """At the level DEBUG botocore logs the bodies of all answers; that of KMS is the password."""
    logging.getLogger("botocore.parsers").addFilter(_is_told)  # adding it twice adds it once
    _quiet.on = True
    try:
        yield
    finally:
        _quiet.on = False
