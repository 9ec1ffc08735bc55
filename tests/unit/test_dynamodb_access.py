"""Access tokens in DynamoDB: a token that was removed stays so."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from oncue.clock import FakeClock
from oncue.core.access import AccessToken, Scope
from oncue.stores.dynamodb.table import Table
from tests.stores.dynamo import OwnTable, new_table
from tests.stores.overheard import OverheardClient


def test_a_late_request_does_not_bring_back_a_removed_token() -> None:
    client = OverheardClient()
    store = OwnTable(Table(new_table().name, lambda: client), FakeClock())
    token = AccessToken("a", None, bytes(32), frozenset({Scope.READ}), 0)
    assert store.put_token(token)
    [creation, _] = client.requests("put_item")
    assert store.remove_token("a")
    with pytest.raises(ClientError, match="conditional"):
        client.put_item(**creation)
    assert store.tokens() == []
    assert store.put_token(token)
    assert store.tokens() == [token]
    store.close()
