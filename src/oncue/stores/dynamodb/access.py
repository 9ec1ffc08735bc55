"""Access tokens in DynamoDB.

Of a removed token a mark stays for a day, so that a late request does not bring it back.
"""

from __future__ import annotations

import msgspec

from oncue.core.access import AccessToken
from oncue.core.ids import REMEMBERED_MS
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.codec import from_text, reader, to_text
from oncue.stores.dynamodb.filing import Filing
from oncue.stores.dynamodb.jobs import MOST_RACES, too_many_races
from oncue.stores.dynamodb.writes import Item, as_ttl, unchanged

_read = reader(AccessToken)


class DynamoAccess(Filing):
    """Implements `oncue.ports.access.TokenStore`."""

    def tokens(self) -> list[AccessToken]:
        items = self.table.query(keys.TOKENS)
        found = [_read(from_text(item["rec"])) for item in items if "rec" in item]
        return sorted(found, key=lambda token: (token.created_at, token.id))

    def put_token(self, token: AccessToken) -> bool:
        rec = to_text(msgspec.to_builtins(token))
        return self._replace_token(token.id, {"rec": rec}, must_exist=False)

    def remove_token(self, token_id: str) -> bool:
        forgotten_at = self.clock.now() + REMEMBERED_MS
        return self._replace_token(token_id, {"ttl": as_ttl(forgotten_at)}, must_exist=True)

    def _replace_token(self, token_id: str, content: Item, *, must_exist: bool) -> bool:
        """Write what the table is to know of this id, if a token of that id is there, or is not."""
        key, now = keys.token(token_id), self.clock.now()
        for _ in range(MOST_RACES):
            was = self.table.get(key) or {}
            if ("rec" in was) != must_exist:
                return False
            ver = was.get("ver", 0)
            item = {**key._asdict(), "ver": max(now, ver + 1), **content}
            if self.table.put(item, unchanged(ver)):
                self._tell_settings(now)
                self._news.tell()
                return True
        raise too_many_races()
