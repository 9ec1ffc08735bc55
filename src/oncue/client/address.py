"""Where a server is, and what proves that one may ask it."""

from __future__ import annotations

import os
import re
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from oncue.core.errors import InvalidInput

TOKEN_VARIABLE = "ONCUE_TOKEN"
_EXAMPLE = "write it like http://127.0.0.1:8420 or https://jobs.example.com"
_TOKEN = re.compile(r"[\x21-\x7e]+", re.ASCII)
_HOST = re.compile(r"[\w.:%-]+", re.ASCII)
_UNQUOTED = "/%:@!$&'()*+,;="  # beside letters, digits and -._~: what a path may have as it is


class Address(NamedTuple):
    """`prefix` is the path below which the server answers, without a slash at its end."""

    scheme: str
    host: str
    port: int
    prefix: str

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"


def address_of(url: object) -> Address:
    """The address that a URL names."""
    if not isinstance(url, str):
        raise InvalidInput(f"must be text; {_EXAMPLE}.", "/url")
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as problem:
        raise InvalidInput(f"cannot be read: {problem}; {_EXAMPLE}.", "/url") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(f"is not the address of a server; {_EXAMPLE}.", "/url")
    if parts.username is not None or parts.password is not None:
        raise InvalidInput("must not contain credentials; give the token by itself.", "/url")
    if port == 0:
        raise InvalidInput(f"a server cannot listen on port 0; {_EXAMPLE}.", "/url")
    if parts.query or parts.fragment:
        raise InvalidInput(f"must end with the path; {_EXAMPLE}.", "/url")
    usual = 443 if parts.scheme == "https" else 80
    prefix = quote(parts.path.rstrip("/"), safe=_UNQUOTED)
    return Address(parts.scheme, _host(parts.hostname), usual if port is None else port, prefix)


def _host(name: str) -> str:
    """The name as it is looked up, which is ASCII."""
    try:
        host = name.encode("idna").decode()
    except UnicodeError:
        host = ""
    if not _HOST.fullmatch(host):
        raise InvalidInput(f"{name!r} cannot be the name of a machine; {_EXAMPLE}.", "/url")
    return host


def bearer_of(token: str | None) -> str | None:
    """The access token that was given, or else the one in the environment. It is quoted nowhere."""
    pointer = "/token"
    if token is None:
        token, pointer = os.environ.get(TOKEN_VARIABLE) or None, TOKEN_VARIABLE
    if token is not None and (not isinstance(token, str) or not _TOKEN.fullmatch(token)):
        raise InvalidInput("is not an access token; 'oncue token create' makes one.", pointer)
    return token
