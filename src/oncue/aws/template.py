"""The SAM template of a deployment: `template.yaml`, with the names of one deployment in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jinja2 import Environment, StrictUndefined

import oncue
from oncue.aws.package import NOT_A_RUNTIME, Runtime, is_runtime
from oncue.aws.starting import QUEUE as TASKS
from oncue.core.errors import InvalidInput
from oncue.core.queue import DEFAULT_QUEUE

FILE = Path(__file__).with_name("template.yaml")
Authoriser = Literal["none", "iam", "jwt"]
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_QUEUE = re.compile(r"[a-z][a-z0-9_]{0,39}")

_ITEMS = ["BatchGetItem", "BatchWriteItem", "ConditionCheckItem", "DeleteItem", "GetItem"]
_ITEMS += ["PartiQLDelete", "PartiQLInsert", "PartiQLUpdate", "PutItem", "Query"]
ACTIONS = {
    "api": ["DescribeTable", *_ITEMS],
    "dispatch": _ITEMS,
    "tasks": _ITEMS,
    "forward": _ITEMS,
}
"""What each function may do with the table."""


@dataclass(frozen=True, slots=True)
class DeployedQueue:
    """A queue whose jobs are delivered to an SQS queue of its own."""

    name: str
    by_stream: bool = False

    @property
    def resource(self) -> str:
        """The name of the SQS queue in the template."""
        return "".join(part.capitalize() for part in self.name.split("_")) + "Queue"

    @property
    def variable(self) -> str:
        return f"ONCUE_SINK_{self.name.upper()}"

    @property
    def sink(self) -> str:
        """As the template writes it: the URL of the SQS queue."""
        return f"!Sub stream:${{{self.resource}}}" if self.by_stream else f"!Ref {self.resource}"


def template(
    *,
    table: str = "oncue",
    queues: Sequence[str] = (DEFAULT_QUEUE,),
    authoriser: Authoriser = "none",
    stream: bool = False,
    python: str = Runtime().python,
) -> str:
    """The template, as YAML. `queues`: those that are delivered to SQS beside `tasks`; `stream`:
    tasks are sent by a function on the stream of the table."""
    if not _TABLE.fullmatch(table):
        raise InvalidInput("must be 3 to 255 letters, digits, '_', '-' or '.'.", "/table")
    if not is_runtime(python):
        raise InvalidInput(f"{NOT_A_RUNTIME}.", "/python")
    tasks = DeployedQueue(TASKS, by_stream=stream)
    others = [DeployedQueue(_checked(name)) for name in dict.fromkeys(queues) if name != TASKS]
    _require_different([*others, tasks])
    environment = Environment(trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    text = environment.from_string(FILE.read_text("utf-8")).render(
        version=oncue.__version__,
        python=python,
        table=table,
        authoriser=authoriser,
        stream=stream,
        queues=[*others, tasks],
        sent=others if stream else [*others, tasks],
        tasks=[tasks],
        actions=ACTIONS,
        failing=["DispatchFunction", "TasksFunction", *(["ForwardFunction"] if stream else [])],
    )
    return re.sub(r"\n{3,}", "\n\n", text)


def _checked(queue: str) -> str:
    """A name that the variable of its sink can tell: ONCUE_SINK_SEND_MAIL is `send_mail`."""
    if not _QUEUE.fullmatch(queue):
        raise InvalidInput(
            f"{queue!r} cannot be deployed by name: use up to 40 lower-case letters, digits and "
            "'_', the first a letter.",
            "/queue",
        )
    return queue


def _require_different(queues: Sequence[DeployedQueue]) -> None:
    by_resource = {queue.resource: queue for queue in queues}
    for queue in queues:
        if (other := by_resource[queue.resource]) is not queue:
            raise InvalidInput(
                f"{queue.name!r} and {other.name!r} would have the same name in the template, "
                f"{queue.resource}. Rename one of them.",
                "/queue",
            )
