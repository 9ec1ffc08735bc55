"""Access tokens in a store on SQL."""

from __future__ import annotations

from dataclasses import asdict

from oncue.core.access import AccessToken, Scope
from oncue.stores.relational.part import RelationalPart, X, transaction
from oncue.stores.relational.rows import reader
from oncue.stores.relational.tx import Named

_token = reader(
    AccessToken, scopes=lambda scopes: frozenset(Scope(scope) for scope in scopes.split())
)


class RelationalTokens(RelationalPart[X]):
    """Implements `oncue.ports.access.TokenStore`."""

    def tokens(self) -> list[AccessToken]:
        with self._read() as tx:
            return [_token(row) for row in tx.rows("access", "tokens")]

    @transaction
    def put_token(self, tx: X, token: AccessToken) -> bool:
        params = {**asdict(token), "scopes": " ".join(sorted(token.scopes))}
        return _change(tx, "put", params)

    @transaction
    def remove_token(self, tx: X, token_id: str) -> bool:
        return _change(tx, "remove", {"id": token_id})


def _change(tx: X, name: str, params: Named) -> bool:
    changed = bool(tx.change("access", name, params))
    if changed:
        tx.tell(None, 0)
    return changed
