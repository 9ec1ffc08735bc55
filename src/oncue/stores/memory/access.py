"""Access tokens in memory."""

from __future__ import annotations

from oncue.core.access import AccessToken
from oncue.stores.memory.state import MemoryState


class MemoryAccess(MemoryState):
    """Implements `oncue.ports.access.TokenStore`."""

    def __init__(self) -> None:
        super().__init__()
        self._tokens: dict[str, AccessToken] = {}

    def tokens(self) -> list[AccessToken]:
        with self._lock:
            return sorted(self._tokens.values(), key=lambda token: (token.created_at, token.id))

    def put_token(self, token: AccessToken) -> bool:
        with self._writing():
            if token.id in self._tokens:
                return False
            self._tokens[token.id] = token
            self._announce(None, 0)
            return True

    def remove_token(self, token_id: str) -> bool:
        with self._writing():
            if self._tokens.pop(token_id, None) is None:
                return False
            self._announce(None, 0)
            return True
