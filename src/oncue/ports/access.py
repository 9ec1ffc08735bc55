"""The store, as far as access tokens go: few, read whole, changed rarely."""

from __future__ import annotations

from typing import Protocol

from oncue.core.access import AccessToken


class TokenStore(Protocol):
    """Every change is durable when its method returns, and told to watchers as (None, 0)."""

    def tokens(self) -> list[AccessToken]:
        """Every access token, oldest first, then by id."""

    def put_token(self, token: AccessToken) -> bool:
        """Keep a new token. False: its id is taken, and nothing was changed."""

    def remove_token(self, token_id: str) -> bool:
        """Forget a token. False: there is none with this id."""
