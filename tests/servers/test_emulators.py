"""The DynamoDB of the tests is there, and is DynamoDB."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers import dynamodb_endpoint, emulators
from tests.servers.clients import dynamodb_client


def test_dynamodb_local_answers(dynamodb: str) -> None:
    assert "TableNames" in dynamodb_client(dynamodb).list_tables()


def test_everybody_in_a_session_is_given_the_same_server(dynamodb: str) -> None:
    assert dynamodb_endpoint() == dynamodb


def test_what_is_not_installed_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(emulators, "ROOT", tmp_path)
    with pytest.raises(emulators.NotInstalled, match="dynamodb-local .* `make .servers/installed`"):
        dynamodb_endpoint()
