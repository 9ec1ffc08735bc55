"""Access tokens as JSON. The text of a token is only in the answer that made it."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from oncue.core import access
from oncue.wire.converting import written
from oncue.wire.formats import Answer, Time


class AccessToken(Answer, kw_only=True):
    """An access token, without what it proves itself with."""

    id: str
    name: str | None
    scopes: list[access.Scope]
    created_at: Time
    token: str | UnsetType = UNSET

    @classmethod
    def of(cls, one: access.AccessToken, token: str | UnsetType = UNSET) -> AccessToken:
        scopes = [scope for scope in access.Scope if scope in one.scopes]
        return written(cls, one, scopes=scopes, token=token)
