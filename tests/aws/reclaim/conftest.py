"""The other system around the handler: its table, its servers, and its environment."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import boto3
import pytest

from oncue.aws import clients, reclaim, sandbox
from oncue.clock import SystemClock
from oncue.core.moment import render
from tests.aws.reclaim.servers import PASSWORD, USER, AgendaServer, IdentityServer
from tests.servers import dynamodb_endpoint, ministack_endpoint
from tests.servers.clients import dynamodb_client

MINUTES = 60_000
AGE = 30  # minutes


class LambdaContext:
    """What Lambda gives to a handler."""

    function_name = "reclaimer"

    def __init__(self, left_millis: int = 900_000) -> None:
        self.left_millis = left_millis

    def get_remaining_time_in_millis(self) -> int:
        return self.left_millis


class OtherSystem:
    """A table of AgendaProgress with keys of its own, the endpoint to it, and who may use it."""

    def __init__(self, endpoint: AgendaServer, identity: IdentityServer) -> None:
        self.endpoint, self.identity = endpoint, identity
        self.table = f"POP-ProgressAgenda-{uuid4().hex}"
        self.dynamodb = dynamodb_client(dynamodb_endpoint())
        self.dynamodb.create_table(
            TableName=self.table,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[
                {"AttributeName": "tenant", "AttributeType": "S"},
                {"AttributeName": "agenda", "AttributeType": "S"},
            ],
            KeySchema=[
                {"AttributeName": "tenant", "KeyType": "HASH"},
                {"AttributeName": "agenda", "KeyType": "RANGE"},
            ],
        )

    def close(self) -> None:
        self.dynamodb.delete_table(TableName=self.table)

    def add(
        self,
        record_id: str,
        state: str = "EXECUTING",
        age: float | None = 2 * AGE,
        *,
        iso: bool = False,
        row: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """A record last updated so many minutes ago (None: no time), in the table and behind the
        endpoint. `row` are attributes of the row only; `fields` those of the endpoint only."""
        now = SystemClock().now()
        updated = None if age is None else now - round(age * MINUTES)
        item: dict[str, Any] = {
            "tenant": {"S": f"tenant-{len(record_id) % 3}"},
            "agenda": {"S": record_id},
            "ProcessingState": {"S": state},
        }
        if updated is not None:
            item["updatedTime"] = {"S": render(updated)} if iso else {"N": str(updated)}
        if message := fields.get("processingStateMessage"):
            item["ProcessingStateMessage"] = {"S": message}
        self.dynamodb.put_item(TableName=self.table, Item={**item, **(row or {})})
        self.endpoint.records[record_id] = {
            "id": record_id,
            "processingState": state,
            "updatedTime": render(updated) if iso and updated is not None else updated,
            "attemptsCompleted": 0,
            "maximumAttempts": 3,
            **fields,
        }

    def event(self, **parameters: Any) -> dict[str, Any]:
        return {
            "tableName": self.table,
            "idFieldName": "agenda",
            "timeFieldName": "updatedTime",
            "reclaimAgeMinutes": AGE,
            **parameters,
        }

    def reclaimed(self, context: LambdaContext | None = None, **parameters: Any) -> Any:
        return reclaim(self.event(**parameters), context or LambdaContext())


@pytest.fixture(scope="session")
def kms() -> Iterator[Any]:
    client = boto3.client(
        "kms",
        endpoint_url=ministack_endpoint(),
        region_name="eu-central-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    yield client
    client.close()


@pytest.fixture(scope="session")
def encrypted(kms: Any) -> str:
    """The password as it is in the environment of the function."""
    key = kms.create_key()["KeyMetadata"]["KeyId"]
    blob = kms.encrypt(KeyId=key, Plaintext=PASSWORD.encode())["CiphertextBlob"]
    return base64.b64encode(blob).decode()


@pytest.fixture
def identity() -> Iterator[IdentityServer]:
    server = IdentityServer()
    yield server
    server.close()


@pytest.fixture
def endpoint(identity: IdentityServer) -> Iterator[AgendaServer]:
    server = AgendaServer(identity)
    yield server
    server.close()


@pytest.fixture
def other(
    endpoint: AgendaServer,
    identity: IdentityServer,
    encrypted: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[OtherSystem]:
    """Everything is as it should be; and it is gone afterwards."""
    for name, value in {
        "AWS_ENDPOINT_URL_DYNAMODB": dynamodb_endpoint(),
        "AWS_ENDPOINT_URL_KMS": ministack_endpoint(),
        "AWS_REGION": "eu-central-1",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "IDENTITY_URL": f"{identity.url}/sign-in",
        "IDM_USER": USER,
        "IDM_ENCRYPTED_PASS": encrypted,
        "AGENDA_PROGRESS_URL": f"{endpoint.url}/progress/",
    }.items():
        monkeypatch.setenv(name, value)
    system = OtherSystem(endpoint, identity)
    yield system
    system.close()
    clients.close()
    sandbox.close()
