"""`dynamodb://…`: what is understood, and what is said of what is not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
    TokenRetrievalError,
)

from oncue import boto
from oncue.core.errors import InvalidInput, StoreUnavailable, StoreUnusable
from oncue.stores import open_store
from oncue.stores.dynamodb import table
from oncue.stores.dynamodb.address import TableAddress
from oncue.stores.dynamodb.keys import Key
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.dynamodb.trouble import explain
from oncue.stores.dynamodb.writes import ABSENT
from tests.stores.dynamo import new_table

UNREACHED = EndpointConnectionError(endpoint_url="http://localhost:8000/")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> pytest.MonkeyPatch:
    """A machine on which nothing of AWS is set up."""
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it remembers credentials
    return monkeypatch


def test_a_url_names_the_table_the_region_and_the_endpoint() -> None:
    assert TableAddress.read("dynamodb://jobs") == TableAddress("jobs")
    assert TableAddress.read("dynamodb://My.jobs_2/?region=eu-west-1") == TableAddress(
        "My.jobs_2", "eu-west-1"
    )
    assert TableAddress.read(
        "dynamodb://jobs?region=x&endpoint=http://localhost:8000"
    ) == TableAddress("jobs", "x", "http://localhost:8000")


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("dynamodb:", "names no table; write it as dynamodb://TABLE"),
        ("dynamodb://", "names no table"),
        ("dynamodb:jobs", "names no table"),
        ("dynamodb://jobs/more", "names no table"),
        ("dynamodb://jo", "'jo' cannot be the name of a table: three or more letters"),
        ("dynamodb://jobs:8000", "'jobs:8000' cannot be the name"),
        ("dynamodb://jobs?rgion=eu", "'rgion' is not an option of a DynamoDB store"),
        ("dynamodb://jobs?eu-west-1", "'eu-west-1' is not of the form name=value"),
        ("dynamodb://jobs?region=", "region has no value"),
    ],
)
def test_a_url_that_is_none_is_refused_with_its_form(url: str, text: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(text)) as caught:
        open_store(url)
    assert caught.value.pointer == "/store"
    assert "dynamodb://TABLE?region=eu-central-1" in caught.value.detail


def test_credentials_in_a_url_are_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidInput, match="do not belong into the URL") as caught:
        open_store("dynamodb://AKIA:very-secret@jobs")
    assert "secret" not in str(caught.value)


def test_other_stores_are_not_mistaken_for_it() -> None:
    with pytest.raises(
        InvalidInput,
        match=r"sqlite:///FILE, postgresql://USER@HOST/DATABASE, dynamodb://TABLE\?region=… and",
    ):
        open_store("dynamo://jobs")


def test_without_boto3_the_next_step_is_its_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boto, "find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match=re.escape("pip install 'oncue[aws]'")):
        open_store("dynamodb://jobs?region=eu-central-1")


def test_without_a_region_the_next_step_is_to_name_one(bare: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match=r"add \?region=eu-central-1 .*AWS_DEFAULT_REGION"):
        open_store("dynamodb://jobs")


@pytest.mark.parametrize(
    ("variable", "value", "options", "text"),
    [
        ("AWS_PROFILE", "nobody", "region=eu-central-1", "profile (nobody) could not be found"),
        ("AWS_PAGER", "", "region=eu-central-1&endpoint=localhost:8000", "Invalid endpoint"),
        ("AWS_PAGER", "", "region=eu central", "eu central"),
    ],
)
def test_settings_that_boto3_refuses_are_told(
    bare: pytest.MonkeyPatch, variable: str, value: str, options: str, text: str
) -> None:
    bare.setenv(variable, value)
    with pytest.raises(InvalidInput, match=re.escape(text)):
        open_store(f"dynamodb://jobs?{options}")


def test_without_credentials_the_ways_to_give_them_are_named(
    bare: pytest.MonkeyPatch, dynamodb: str
) -> None:
    with pytest.raises(StoreUnusable, match="no usable credentials .*AWS_ACCESS_KEY_ID=local"):
        open_store(f"dynamodb://jobs?region=eu-central-1&endpoint={dynamodb}")


def test_a_table_that_is_not_there_is_to_be_created(
    monkeypatch: pytest.MonkeyPatch, dynamodb: str
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    with pytest.raises(StoreUnusable, match="does not exist.* oncue migrate, with the URL"):
        open_store(f"dynamodb://no-such-table?region=eu-central-1&endpoint={dynamodb}")


def test_a_table_that_is_there_is_opened(monkeypatch: pytest.MonkeyPatch, dynamodb: str) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    url = f"dynamodb://{new_table().name}?region=eu-central-1&endpoint={dynamodb}"
    store = open_store(url)
    assert isinstance(store, DynamoStore)
    assert store.describe().kind == "dynamodb"
    store.close()


# -- troubles --------------------------------------------------------------------------------------


def refused(code: str, message: str = "") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "PutItem")


def test_a_refusal_names_the_action_but_not_the_caller() -> None:
    told = (
        "User: arn:aws:iam::123456789012:user/ada is not authorized to perform: "
        "dynamodb:PartiQLInsert on resource: arn:aws:dynamodb:eu-central-1:123456789012:table/jobs"
    )
    error = explain("jobs", refused("AccessDeniedException", told))
    assert isinstance(error, StoreUnusable)
    assert "AccessDeniedException for dynamodb:PartiQLInsert" in str(error)
    assert "docs/dynamodb.md" in str(error)
    assert "123456789012" not in str(error)


@pytest.mark.parametrize(
    "problem",
    [NoCredentialsError(), TokenRetrievalError(provider="sso", error_msg="expired")],
)
def test_missing_credentials_last(problem: Exception) -> None:
    error = explain("jobs", problem)
    assert isinstance(error, StoreUnusable)
    assert "no usable credentials" in str(error)


def test_an_endpoint_that_does_not_answer_is_named() -> None:
    error = explain("jobs", UNREACHED)
    assert isinstance(error, StoreUnavailable)
    assert "no answer from http://localhost:8000/ (EndpointConnectionError)" in str(error)
    assert "Check the region and the endpoint" in str(error)


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Iterator[table.Table]:
    """A table that gives up at once as long as there was no connection."""
    monkeypatch.setattr(table, "FIRST_PATIENCE_SECONDS", -1)
    monkeypatch.setattr(table, "FIRST_PAUSE_SECONDS", 0)
    jobs = table.Table("jobs", Mock)
    yield jobs
    jobs.close()


def test_an_address_with_which_there_was_no_connection_is_given_up_sooner(
    jobs: table.Table,
) -> None:
    client = jobs.client
    client.get_item.side_effect = [UNREACHED, UNREACHED]
    with pytest.raises(StoreUnavailable, match="no answer from http://localhost:8000/"):
        jobs.get(Key("a", "b"))
    assert client.get_item.call_count == 1
    slow = ReadTimeoutError(endpoint_url="http://localhost:8000/")
    client.get_item.side_effect = [slow, {}, UNREACHED, UNREACHED, {}]
    jobs.get(Key("a", "b"))
    jobs.get(Key("a", "b"))
    assert client.get_item.call_count == 6


def test_an_address_that_refused_a_request_is_not_given_up_sooner(jobs: table.Table) -> None:
    jobs.client.put_item.side_effect = refused("ConditionalCheckFailedException")
    assert not jobs.put({"pk": "a", "sk": "b"}, ABSENT)
    jobs.client.get_item.side_effect = [UNREACHED, {}]
    assert jobs.get(Key("a", "b")) is None


@pytest.mark.parametrize("code", ["UnrecognizedClientException", "ExpiredTokenException"])
def test_credentials_that_are_not_accepted_need_no_policy(code: str) -> None:
    error = explain("jobs", refused(code))
    assert isinstance(error, StoreUnusable)
    assert f"credentials were not accepted ({code})" in str(error)
    assert "docs/dynamodb.md" not in str(error)


def test_a_table_that_is_none_of_oncue_may_be_the_reason_of_a_refusal() -> None:
    error = explain("jobs", refused("ValidationException", "The provided key element …"))
    assert "ValidationException. If it is not a table of oncue, 'oncue migrate --dry-run'" in str(
        error
    )
    assert str(explain("jobs", refused("Other"))).endswith("refused a request: Other")


def test_an_answer_with_a_bare_status_is_not_one_of_dynamodb() -> None:
    error = explain("jobs", refused("404"))
    assert isinstance(error, StoreUnusable)
    assert "request: 404. What answers there is not DynamoDB: check the endpoint" in str(error)
