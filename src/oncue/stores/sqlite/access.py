"""Access tokens in SQLite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import apsw

from oncue.core.access import AccessToken, Scope
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.statements import load

SQL = load("access")
_token = rows.reader(
    AccessToken, scopes=lambda scopes: frozenset(Scope(scope) for scope in scopes.split())
)


class AccessTokens:
    db: Database

    def tokens(self) -> list[AccessToken]:
        with self.db.reading() as tx:
            return [_token(row) for row in rows.fetch(tx, SQL["tokens"])]

    def put_token(self, token: AccessToken) -> bool:
        return self._change(
            SQL["put"],
            {
                "id": token.id,
                "name": token.name,
                "digest": token.digest,
                "scopes": " ".join(sorted(token.scopes)),
                "created_at": token.created_at,
            },
        )

    def remove_token(self, token_id: str) -> bool:
        return self._change(SQL["remove"], {"id": token_id})

    def _change(self, statement: str, own: Mapping[str, Any]) -> bool:
        def change(tx: apsw.Connection) -> bool:
            tx.execute(statement, own)
            changed = bool(tx.changes())
            if changed:
                self.db.tell(None, 0)
            return changed

        return self.db.write(change)
