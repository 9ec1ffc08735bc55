"""The policies on the page are what a run needs, and no more."""

from __future__ import annotations

import json

import pytest
from botocore.exceptions import ClientError

from oncue.aws.others_table import OthersTable
from oncue.core.errors import StoreUnusable
from oncue.stores.dynamodb.table import Table
from tests.acceptance.documents import blocks
from tests.stores.dynamo import client
from tests.stores.dynamodb.policy import Recording

from .rig import Rig, TaskRig, WaiterRig, message, task


def granted(sid: str) -> set[str]:
    statements = [
        statement
        for block in blocks("docs/settings.md", "json")
        for statement in json.loads(block.text)["Statement"]
    ]
    [found] = [one for one in statements if one["Sid"] == sid]
    return set(found["Action"])


@pytest.mark.parametrize("sid", ["OncueAdoptWaiter", "OncueAdoptTasks"])
def test_a_run_needs_what_the_page_says(sid: str) -> None:
    rig: Rig = WaiterRig() if sid == "OncueAdoptWaiter" else TaskRig()
    rig.put(message("a") if isinstance(rig, WaiterRig) else task("a"))
    recording = Recording(client())
    assert rig.adopt(real=recording).adopted == 1
    assert {one.action for one in recording.needed} == granted(sid)
    assert {one.resource for one in recording.needed} == {"table"}
    rig.close()


def test_a_right_that_is_missing_is_named() -> None:
    class Refusing:
        def describe_table(self, **asked: object) -> None:
            told = "User: arn:aws:iam::1:user/ada is not allowed to do dynamodb:DescribeTable"
            answer = {"Error": {"Code": "AccessDeniedException", "Message": told}}
            raise ClientError(answer, "DescribeTable")  # type: ignore[arg-type]

    table = OthersTable(Table("mailers", Refusing), WaiterRig.keys)
    with pytest.raises(StoreUnusable) as caught:
        table.check_keys("shoryuken-waiter")
    table.close()
    assert str(caught.value) == (
        "DynamoDB table mailers: access was refused (AccessDeniedException for "
        "dynamodb:DescribeTable). docs/settings.md has the policy that the command needs."
    )
