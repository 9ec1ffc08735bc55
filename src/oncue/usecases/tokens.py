"""Who may use the HTTP API: access tokens are created, listed, revoked and recognised here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from oncue.core import access
from oncue.core.access import CLOSED, AccessToken, Scope
from oncue.core.errors import Conflict, NotFound, StoreUnavailable
from oncue.ports.access import TokenStore
from oncue.ports.clock import Clock

FRESH_SECONDS = 1.0
STALE_SECONDS = 30.0
"""For so long, tokens that are known are accepted while the store is away."""
MOST_UNKNOWN = 1000  # ids that are looked for in a second and not found
ALL_SCOPES = tuple(Scope)


class KnownTokens(NamedTuple):
    """All tokens of a store, as they were read."""

    read_at: float
    """By the monotonic clock. Taken before reading: what was read is never older than it claims."""
    tokens: Mapping[str, AccessToken]
    """By id, `CLOSED` included."""

    @property
    def closed(self) -> bool:
        """Whether every caller needs a token: the store has tokens, or had some and was not opened
        to this machine again by `allow_loopback`."""
        return bool(self.tokens)

    def scopes_of(self, token_id: str, text: str) -> frozenset[Scope] | None:
        """What the bearer of this text may do; None: it is no token of this store. Every text of
        the right shape costs the same comparison, whether its id is known or not."""
        token = self.tokens.get(token_id, access.NOBODY)
        return token.scopes if access.matches(token, text) else None


class Access:
    """The access tokens of one store. Safe to use from many threads.

    `known` is asked with every request, and answers from what was read at most a second ago: a
    token that is revoked on one node is refused by every node within a second. An id that was never
    seen is looked for at once, so a token works as soon as it was made; for the rest of the second
    it is unknown. While the store is away, what was read last holds for half a minute.
    """

    def __init__(self, store: TokenStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._last: KnownTokens | None = None
        self._unknown: set[str] = set()
        self._unknown_since = 0.0

    def create(
        self, name: str | None = None, scopes: Iterable[str] = ALL_SCOPES
    ) -> tuple[AccessToken, str]:
        """A new token, kept from now on, and its text, which is nowhere to be found later."""
        if name is not None:
            access.check_token_name(name)
        token, text = access.mint(name, access.check_scopes(scopes), self._clock.now())
        self._store.put_token(CLOSED)  # first: whatever happens then, the store is closed
        if not self._store.put_token(token):
            raise Conflict(f"another token has the id {token.id}; create it again.")
        self.forget()
        return token, text

    def tokens(self) -> list[AccessToken]:
        """Every token, oldest first."""
        return [token for token in self._store.tokens() if token.id != CLOSED.id]

    def revoke(self, id_or_name: str) -> AccessToken:
        """End a token for good; the answer is the one that was. An id goes before a name; a name
        that several tokens share is refused. After the last one, every request is refused until
        there is a new token, or until `allow_loopback`."""
        token = self._named(id_or_name)
        self._store.put_token(CLOSED)  # a token of an earlier version came without it
        if not self._store.remove_token(token.id):
            raise _unknown()
        self.forget()
        return token

    def allow_loopback(self) -> bool:
        """Accept requests without a token from this machine again, as before the first token.
        Refused while there are tokens. False: they are accepted already."""
        if tokens := self.tokens():
            raise Conflict(
                f"there are still tokens ({', '.join(token.id for token in tokens)}); revoke them "
                "first: while there is one, every request needs a token."
            )
        changed = self._store.remove_token(CLOSED.id)
        self.forget()
        return changed

    @property
    def configured(self) -> bool:
        """Whether there is any token that a caller can show."""
        return any(token_id != CLOSED.id for token_id in self.known().tokens)

    @property
    def closed(self) -> bool:
        """Whether every caller needs a token."""
        return self.known().closed

    def scopes_of(self, text: str) -> frozenset[Scope] | None:
        """What the bearer of this text may do; None: it is no token of this store."""
        token_id = access.id_of(text)
        return None if token_id is None else self.known(token_id).scopes_of(token_id, text)

    def known(self, token_id: str | None = None) -> KnownTokens:
        """The tokens, recent enough to judge the bearer of this id (None: of no token). May read
        them in the caller's thread."""
        found = self.at_hand(token_id, FRESH_SECONDS)
        if found is not None:
            return found
        try:
            found = self.read()
            self.looked_for(token_id)
        except StoreUnavailable:
            found = self.at_hand(token_id, STALE_SECONDS)
            if found is None:
                raise
        return found

    def at_hand(self, token_id: str | None, fresh_seconds: float) -> KnownTokens | None:
        """The same from what was read in the last so many seconds; None: they have to be read."""
        last, now = self._last, self._clock.monotonic()
        if last is None or now - last.read_at >= fresh_seconds:
            return None
        if token_id is None or token_id in last.tokens or self._is_unknown(token_id, now):
            return last
        return None

    def read(self) -> KnownTokens:
        """Read all tokens now."""
        began = self._clock.monotonic()
        try:
            last = KnownTokens(began, {token.id: token for token in self._store.tokens()})
        except StoreUnavailable:
            raise
        except BaseException:  # it may be another store by now: nothing is known of it
            self._last = None
            raise
        self._last = last
        return last

    def looked_for(self, token_id: str | None) -> None:
        """The tokens were read to find this id. If it was not there, that is remembered."""
        if self._last is not None and token_id is not None and token_id not in self._last.tokens:
            self._begin_second(self._clock.monotonic())
            self._unknown.add(token_id)

    def forget(self) -> None:
        """The tokens have changed."""
        self._last, self._unknown = None, set()

    def _is_unknown(self, token_id: str, now: float) -> bool:
        """Whether it was looked for within the last second. If too many were, all others are taken
        for unknown: requests with made-up tokens must not keep the store busy."""
        self._begin_second(now)
        return token_id in self._unknown or len(self._unknown) >= MOST_UNKNOWN

    def _begin_second(self, now: float) -> None:
        """What was not found is forgotten when the second is over."""
        if now - self._unknown_since >= FRESH_SECONDS:
            self._unknown, self._unknown_since = set(), now

    def _named(self, id_or_name: str) -> AccessToken:
        tokens = self.tokens()
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
