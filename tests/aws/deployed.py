"""What `oncue aws template` deploys, as CloudFormation sees it; and clients that may do only what
the role of a function allows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from samtranslator.translator.transform import transform  # type: ignore[import-untyped]
from samtranslator.yaml_helper import yaml_parse  # type: ignore[import-untyped]

from oncue.aws.template import template
from oncue_bench.dynamodb.wrapped import Call, WrappedClient
from tests.stores.dynamodb.policy import Permission, needed

MANAGED = ("AWSLambdaBasicExecutionRole", "AWSLambdaDynamoDBExecutionRole")
FUNCTIONS = {
    "api": "ApiFunction",
    "dispatch": "DispatchFunction",
    "start_scheduled_tasks": "TasksFunction",
    "forward_started": "ForwardFunction",
    "reclaim": "ReclaimFunction",
}
"""The function of each handler."""
SQS_ACTIONS = {
    "send_message_batch": "sqs:SendMessage",
    "get_queue_attributes": "sqs:GetQueueAttributes",
}


class ManagedPolicies:
    """The policies of AWS that SAM adds by itself."""

    def load(self) -> dict[str, str]:
        return {name: f"arn:aws:iam::aws:policy/service-role/{name}" for name in MANAGED}


def written(**options: Any) -> dict[str, Any]:
    """The template as it is written."""
    found: dict[str, Any] = yaml_parse(template(**options))
    return found


def translated(**options: Any) -> dict[str, Any]:
    """The resources that CloudFormation creates. The package was uploaded, as `sam deploy` does."""
    text = template(**options).replace("CodeUri: oncue.zip", "CodeUri: s3://bucket/oncue.zip")
    found: dict[str, Any] = transform(yaml_parse(text), {}, ManagedPolicies())["Resources"]
    return found


def statements(function: str, **options: Any) -> list[dict[str, Any]]:
    """Of the policies of a function."""
    properties = written(**options)["Resources"][function]["Properties"]
    return [one for policy in properties["Policies"] for one in policy["Statement"]]


@cache
def allowed(handler: str) -> frozenset[Permission]:
    """What the function of a handler may do; `queue`: with any queue of the template."""
    return frozenset(
        Permission(action, kind)
        for one in statements(FUNCTIONS[handler], stream=handler == "forward_started")
        for action in listed(one["Action"])
        for kind in {_kind(resource) for resource in listed(one["Resource"])}
    )


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _kind(resource: Any) -> str:
    if resource == {"Fn::GetAtt": ["Table", "Arn"]}:
        return "table"
    if resource == {"Fn::Sub": "${Table.Arn}/index/look"}:
        return "index"
    [logical, attribute] = resource["Fn::GetAtt"]
    assert (logical[-5:], attribute) == ("Queue", "Arn")
    return "queue"


class Role:
    """Whose rights requests have. Outside of `acting` they have all."""

    def __init__(self) -> None:
        self._allowed: frozenset[Permission] | None = None
        self.used: set[Permission] = set()
        self.refused: set[Permission] = set()

    @contextmanager
    def acting(self, handler: str) -> Iterator[None]:
        """Fails if something was refused, also if a function could do without it."""
        self._allowed = allowed(handler)
        try:
            yield
        finally:
            self._allowed = None
            assert not self.refused, f"the template does not allow {sorted(self.refused)}"

    def require(self, wanted: set[Permission]) -> None:
        if self._allowed is not None:
            missing = wanted - self._allowed
            self.refused |= missing
            if missing:
                raise PermissionError(f"the template does not allow {sorted(missing)}")
            self.used |= wanted


class LimitedDynamoDB(WrappedClient):
    def __init__(self, client: Any, role: Role) -> None:
        super().__init__(client)
        self._role = role

    def during(self, call: Call) -> Any:
        self._role.require(needed(call))
        return self.send(call)


class LimitedSqs(WrappedClient):
    def __init__(self, client: Any, role: Role) -> None:
        super().__init__(client)
        self._role = role

    def during(self, call: Call) -> Any:
        self._role.require({Permission(SQS_ACTIONS.get(call.method, call.method), "queue")})
        return self.send(call)
