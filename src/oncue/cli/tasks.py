"""`oncue tasks`: list, show, add, remove."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from oncue.cli import output
from oncue.cli.app import App, Group, common
from oncue.cli.nouns import answer, answer_list
from oncue.core.cursor import MOST_ITEMS
from oncue.core.errors import InvalidInput, NotFound
from oncue.core.job import Job, JobFilter
from oncue.core.moment import Moment
from oncue.core.queue import TASKS
from oncue.usecases import tasks as usecase

NO_TASKS = "There are no such tasks here."
_PLACES = {"userId": "USER", "dueDate": "--due-date", "afterDays": "--after-days"}


@click.group(cls=Group)
def tasks() -> None:
    """Tasks of users: work for a date. They are jobs of the queue `tasks`.

    $ oncue tasks add ada --due-date 2026-12-01 '{"text": "Call Bob"}'
    $ oncue tasks list ada
    """


@tasks.command("list")
@click.argument("user")
@click.option(
    "--status",
    type=click.Choice(usecase.STATUSES, case_sensitive=False),
    help="Only tasks with this status.",
)
@click.option("--limit", type=click.IntRange(1, MOST_ITEMS), default=50, help="Tasks per page.")
@click.option("--cursor", metavar="TEXT", help="Continue after the page that ended with it.")
@common
def list_(app: App, user: str, status: str | None, limit: int, cursor: str | None) -> None:
    """List the tasks of a user by date, finished ones included.

    $ oncue tasks list ada
    $ oncue tasks list ada --status STARTED --json
    """
    page = app.cue.page(JobFilter(TASKS, owner=user), cursor, limit)
    found = [usecase.fields_of(job) for job in page.items if usecase.is_listed(job, status)]
    lines = [
        [one["requestId"], one["dueDate"], one["status"], output.clean(_content(one))]
        for one in found
    ]
    document = {"items": found, "next_cursor": page.next}
    head = ["request", "due", "status", "content"]
    answer_list(app, document, head, lines, NO_TASKS, after=page.next)


@tasks.command()
@click.argument("user")
@click.argument("request_id", metavar="REQUEST")
@common
def show(app: App, user: str, request_id: str) -> None:
    """Show one task of a user.

    $ oncue tasks show ada 3f0a9c1e-8d52-4a6b-9a75-0d1c2b3a4f5e
    """
    found = usecase.fields_of(_task(app, user, request_id))
    if app.as_json:
        output.document(found)
        return
    output.pairs(
        ("request", found["requestId"]),
        ("user", output.clean(user)),
        ("due", found["dueDate"]),
        ("status", found["status"]),
        ("error", output.clean(found.get("error"))),
        ("content", output.clean(_content(found))),
    )


@tasks.command()
@click.argument("user")
@click.argument("content", metavar="[JSON]", required=False)
@click.option("--due-date", metavar="DATE", help="The day on which it is due, such as 2026-12-01.")
@click.option("--after-days", type=int, metavar="N", help="The same, in days from today in UTC.")
@common
def add(
    app: App, user: str, content: str | None, due_date: str | None, after_days: int | None
) -> None:
    """Add a task for a user, due at 00:00 UTC of its date. JSON is an object: its content.

    $ oncue tasks add ada --due-date 2026-12-01 '{"text": "Call Bob"}'
    $ oncue tasks add ada --after-days 15
    """
    app.may_create = True
    given = {"userId": user, "dueDate": due_date, "afterDays": after_days}
    job = _job(_object(content), given, app.cue.clock.now())
    payload = job.pop("payload")
    stored = usecase.fields_of(app.cue.schedule(payload, **job))
    answer(app, stored, f"{stored['requestId']}  due {stored['dueDate']}")


@tasks.command()
@click.argument("user")
@click.argument("request_id", metavar="REQUEST")
@common
def remove(app: App, user: str, request_id: str) -> None:
    """Remove a task of a user, while it is SCHEDULED. Its job is then cancelled.

    $ oncue tasks remove ada 3f0a9c1e-8d52-4a6b-9a75-0d1c2b3a4f5e
    """
    job = app.cue.cancel(usecase.removable(_task(app, user, request_id)).id)
    answer(app, {"requestId": job.id, "removed": True}, f"Task {job.id} is removed.")


def _task(app: App, user: str, request_id: str) -> Job:
    try:
        return usecase.owned(app.cue.job(request_id), user)
    except NotFound:
        hint = "'oncue tasks list USER' lists them."
        raise NotFound(f"there is no such task of this user. {hint}") from None


def _job(content: dict[str, Any], given: dict[str, Any], now: Moment) -> dict[str, Any]:
    """The job that the task is; what is wrong is named as on the command line."""
    for name in given.keys() & content.keys():
        raise InvalidInput(f"is not content: give it as {_PLACES[name]}.", f"JSON /{name}")
    if (given["dueDate"] is None) == (given["afterDays"] is None):
        raise InvalidInput("give either --due-date YYYY-MM-DD or --after-days N.")
    fields = content | {name: one for name, one in given.items() if one is not None}
    try:
        return usecase.as_job(fields, now)
    except InvalidInput as problem:
        name = problem.pointer.removeprefix("/")
        raise InvalidInput(problem.detail, _PLACES.get(name, f"JSON /{name}")) from None


def _object(text: str | None) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError):
        raise InvalidInput("the content of a task is a JSON object.", "JSON") from None


def _content(fields: dict[str, Any]) -> str:
    """What the task has beside the fields that every task has."""
    usual = ("userId", "dueDate", *usecase.SET_BY_SERVER)
    content = {name: value for name, value in fields.items() if name not in usual}
    return msgspec.json.encode(content).decode() if content else ""
