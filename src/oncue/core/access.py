"""Access tokens: what a caller of the HTTP API shows, and what it may then do.

The text `oncue_<id>_<secret>` is shown once. The store keeps the id, which names the record to
compare with, and the SHA-256 of the whole text, from which the text cannot be found. (The token of
a claim is something else: see `core/token.py`.)
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from oncue.core.errors import InvalidInput
from oncue.core.moment import Moment
from oncue.core.text import is_printable, quoted

LONGEST_NAME = 80
_TEXT = re.compile(r"oncue_([0-9a-f]{16})_[A-Za-z0-9_-]{43}", re.ASCII)


class Scope(StrEnum):
    """What a token allows."""

    READ = "read"
    """Look at jobs, queues and all the rest."""
    WRITE = "write"
    """Create and change jobs."""
    WORK = "work"
    """Claim jobs; what follows is authorised by the claim's own token."""
    ADMIN = "admin"
    """Change queues and other settings, and all that the other scopes allow."""


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A token as the store keeps it, without its text."""

    id: str
    name: str | None
    digest: bytes = field(repr=False)
    scopes: frozenset[Scope]
    created_at: Moment


NOBODY = AccessToken("", None, bytes(32), frozenset(), 0)
"""Compared with if there is no record, so that an unknown id takes as long as a known one."""

CLOSED = AccessToken("closed", None, bytes(32), frozenset({Scope.READ}), 0)
"""Kept among the tokens of a store from its first one on, also after the last one is revoked: it
says that the store had tokens. Nobody can show it: no text has this id or this digest."""


def mint(name: str | None, scopes: frozenset[Scope], created_at: Moment) -> tuple[AccessToken, str]:
    """A new token: the record to keep and the text to hand out, which carries 256 random bits."""
    token_id = secrets.token_hex(8)
    text = f"oncue_{token_id}_{secrets.token_urlsafe(32)}"
    return AccessToken(token_id, name, digest_of(text), scopes, created_at), text


def id_of(text: str) -> str | None:
    """The id in the text of a token; None if the text is not that of a token."""
    match = _TEXT.fullmatch(text)
    return match[1] if match else None


def digest_of(text: str) -> bytes:
    # No text may raise here, whatever bytes a caller put into a header.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def matches(token: AccessToken, text: str) -> bool:
    """Whether the text is that of this token, compared in constant time."""
    return hmac.compare_digest(digest_of(text), token.digest)


def allows(scopes: Collection[str], wanted: Scope) -> bool:
    return wanted in scopes or Scope.ADMIN in scopes


def check_scopes(values: Iterable[str], pointer: str = "/scopes") -> frozenset[Scope]:
    """The scopes of these names: at least one."""
    named, known = list(values), ", ".join(Scope)
    for value in named:
        if value not in list(Scope):
            raise InvalidInput(f"{quoted(value)} is not a scope; choose from {known}.", pointer)
    if not named:
        raise InvalidInput(f"at least one scope is needed: {known}.", pointer)
    return frozenset(map(Scope, named))


def check_token_name(value: object, pointer: str = "/name") -> str:
    name = value if isinstance(value, str) else ""
    if not 1 <= len(name) <= LONGEST_NAME or not is_printable(name) or name != name.strip():
        raise InvalidInput(
            f"a token's name is 1 to {LONGEST_NAME} printable characters, "
            "without spaces at either end.",
            pointer,
        )
    if id_of(name) is not None:
        raise InvalidInput(
            "this is the text of a token, which is a secret; choose another name.", pointer
        )
    return name
