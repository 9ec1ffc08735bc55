"""A table of the task scheduler: tasks of users, each due on a date.

Its function runs at each hour from 00:00 to 05:00 UTC. It finds the tasks of that date by an index
and writes each back as STARTED, without a condition; the stream of the table tells another
function of the change, which sends the task.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from oncue.aws.adoption import Adoptable, id_of
from oncue.aws.others_table import OthersTable, WireItem
from oncue.core import ids, moment
from oncue.core.errors import InvalidInput
from oncue.core.moment import Moment
from oncue.scheduler import Scheduler
from oncue.stores.dynamodb.foreign import plain
from oncue.usecases import intake
from oncue.usecases.tasks import as_job

SCHEDULED = "SCHEDULED"
LEAD_MS = 10 * 60_000  # before midnight: for a clock that is wrong, and an index that lags
HOURS_MS = 5 * 3_600_000 + 30 * 60_000  # after it: until 05:00, and 15 minutes of a function


class TaskLayout:
    """Implements `oncue.aws.adoption.OthersLayout`."""

    system = "the task scheduler"
    keys = ("userId", "requestId")

    def pages(self, table: OthersTable) -> Iterator[list[WireItem]]:
        yield from table.pages("scan")

    def waits(self, item: WireItem) -> bool:
        status: object = item.get("status", {}).get("S", SCHEDULED)
        return status == SCHEDULED

    def name_of(self, item: WireItem) -> str:
        return f"{item['userId']['S']}/{item['requestId']['S']}"

    def read(self, item: WireItem, arn: str, now: Moment) -> Adoptable:
        if "S" not in item.get("status", {}):
            raise InvalidInput("is missing, or is not a text.", "status")
        fields = {name: _json(plain(value)) for name, value in item.items()}
        request_id = fields.pop("requestId")
        del fields["status"]
        due = fields.get("dueDate")
        if not isinstance(due, str):
            raise InvalidInput("is missing, or is not a text.", "dueDate")
        fields["dueDate"] = due.partition("#")[0]
        job = as_job(fields, now)
        due_at = moment.from_datetime(job["at"])
        keeps = ids.is_id(request_id) and ids.read(request_id) is None
        job["id"] = request_id if keeps else id_of("task", arn, item)
        return Adoptable(item, intake.new_job(job, now), due_at)

    def may_have_read(self, due_at: Moment, now: Moment) -> bool:
        """It looks for the tasks of a date in the first hours of that date only."""
        return due_at - LEAD_MS <= now < due_at + HOURS_MS

    def prepare(self, cue: Scheduler, queues: set[str], *, dry_run: bool) -> None:
        """The queue `tasks` is built in."""


def _json(value: Any) -> Any:
    """With numbers as exact as they were."""
    if isinstance(value, dict):
        return {name: _json(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_json(one) for one in value]
    return _number(value) if isinstance(value, Decimal) else value


def _number(value: Decimal) -> int | float:
    if value == value.to_integral_value() and value.adjusted() < 18:
        return int(value)
    if Decimal(repr(number := float(value))) == value:
        return number
    raise InvalidInput(f"{value} has more digits than a number of a task keeps.")
