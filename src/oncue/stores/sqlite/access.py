"""Access tokens in SQLite."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from oncue.core.access import AccessToken, Scope
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import StorePart, writing

SQL = rows.load("access")
_token = rows.reader(
    AccessToken, scopes=lambda scopes: frozenset(Scope(scope) for scope in scopes.split())
)


class SqliteTokens(StorePart):
    def tokens(self) -> list[AccessToken]:
        with self.db.reading() as tx:
            return [_token(row) for row in rows.fetch(tx, SQL["tokens"])]

    @writing
    def put_token(self, tx: rows.Tx, token: AccessToken) -> bool:
        params = {**asdict(token), "scopes": " ".join(sorted(token.scopes))}
        return self._change(tx, SQL["put"], params)

    @writing
    def remove_token(self, tx: rows.Tx, token_id: str) -> bool:
        return self._change(tx, SQL["remove"], {"id": token_id})

    def _change(self, tx: rows.Tx, statement: str, params: dict[str, Any]) -> bool:
        tx.execute(statement, params)
        changed = bool(tx.changes())
        if changed:
            self.db.tell(None, 0)
        return changed
