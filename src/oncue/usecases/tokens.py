"""Who may use the HTTP API: access tokens are created, listed, revoked and recognised here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncue.core import access
from oncue.core.access import AccessToken, Scope
from oncue.core.errors import Conflict, NotFound
from oncue.ports.access import TokenStore
from oncue.ports.clock import Clock

FRESH_SECONDS = 1.0
UNKNOWN_FRESH_SECONDS = 0.01  # a new token works at once, and unknown ones cause few reads
ALL_SCOPES = tuple(Scope)


class Access:
    """The access tokens of one store. Safe to use from many threads.

    `scopes_of` and `configured` are asked with every request and answer from what was read at most
    a second ago: a token that is revoked on one node is refused by every node within a second. One
    that is not known is looked for anew: a token works as soon as it was made.
    """

    def __init__(self, store: TokenStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._read: tuple[float, Mapping[str, AccessToken]] | None = None

    def create(
        self, name: str | None = None, scopes: Iterable[str] = ALL_SCOPES
    ) -> tuple[AccessToken, str]:
        """A new token, kept from now on, and its text, which is nowhere to be found later."""
        if name is not None:
            access.check_token_name(name)
        token, text = access.mint(name, access.check_scopes(scopes), self._clock.now())
        if not self._store.put_token(token):
            raise Conflict(f"another token has the id {token.id}; create it again.")
        self._read = None
        return token, text

    def tokens(self) -> list[AccessToken]:
        """Every token, oldest first."""
        return self._store.tokens()

    def revoke(self, id_or_name: str) -> AccessToken:
        """End a token for good; the answer is the one that was. An id goes before a name; a name
        that several tokens share is refused."""
        token = self._named(id_or_name)
        if not self._store.remove_token(token.id):
            raise _unknown()
        self._read = None
        return token

    @property
    def configured(self) -> bool:
        """Whether there is any token."""
        return bool(self._known())

    def scopes_of(self, text: str) -> frozenset[Scope] | None:
        """What the bearer of this text may do; None: it is no token of this store. Every text of
        the right shape costs the same comparison, whether its id is known or not."""
        token_id = access.id_of(text)
        if token_id is None:
            return None
        tokens = self._known()
        if token_id not in tokens:
            tokens = self._known(UNKNOWN_FRESH_SECONDS)
        token = tokens.get(token_id, access.NOBODY)
        return token.scopes if access.matches(token, text) else None

    def _known(self, fresh_seconds: float = FRESH_SECONDS) -> Mapping[str, AccessToken]:
        read = self._read
        if read is None or self._clock.monotonic() - read[0] >= fresh_seconds:
            # The time is taken before reading, so that what is read is never older than it claims.
            started = self._clock.monotonic()
            read = (started, {token.id: token for token in self._store.tokens()})
            self._read = read
        return read[1]

    def _named(self, id_or_name: str) -> AccessToken:
        tokens = self._store.tokens()
        found = [token for token in tokens if token.id == id_or_name]
        found = found or [token for token in tokens if token.name == id_or_name]
        if not found:
            raise _unknown()
        if len(found) > 1:
            ids = ", ".join(token.id for token in found)
            raise Conflict(f"{len(found)} tokens have this name; revoke one by its id: {ids}.")
        return found[0]


def _unknown() -> NotFound:
    # What was asked for is not repeated: it may be the text of a token, pasted by mistake.
    return NotFound("there is no token with this id or name; `oncue token list` shows them.")
