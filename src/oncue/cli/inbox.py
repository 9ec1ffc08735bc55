"""`oncue inbox`: list, replay, set."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import cast

import click

from oncue.cli import output
from oncue.cli.app import App, Command, Group, store_only
from oncue.cli.listing import LIMIT, MOST
from oncue.cli.nouns import answer, answer_list
from oncue.cli.progress import counted
from oncue.cli.times import TIME
from oncue.core.errors import NotSupported
from oncue.core.moment import Moment, from_datetime, to_datetime
from oncue.ports.inbox import Inbox, InboxSettings
from oncue.wire.inbox import InboxItem as Shown
from oncue.wire.inbox import InboxItems

HOUR_MS = 3_600_000
MOST_DAYS = 31
DEFAULTS = InboxSettings()


@click.group(cls=Group)
def inbox() -> None:
    """Jobs that programs put straight into a DynamoDB table.

    $ oncue inbox set --shards 50
    $ oncue inbox list --from '2026-12-01 09:00'
    $ oncue inbox replay --from '2026-12-01 09:00' --to '2026-12-01 10:00'
    """


def between(command: Command) -> Command:
    """The options that say which due times."""
    until = click.option("--to", "last", type=TIME, help="Due up to then. [default: now]")
    since = click.option(
        "--from", "first", type=TIME, help="Due from then on. [default: an hour before --to]"
    )
    return since(until(command))


@inbox.command("list")
@between
@click.option("--limit", type=click.IntRange(1, MOST), default=LIMIT)
@store_only
def list_(app: App, first: datetime | None, last: datetime | None, limit: int) -> None:
    """List what is in the inbox by due time, and what is wrong with it. All items of a bucket are
    listed, also those that are due a few minutes before or after.

    $ oncue inbox list
    $ oncue inbox list --from '2026-12-01 09:00' --to '2026-12-01 10:00'
    $ oncue inbox list --json | jq -r '.items[] | select(.problem).sk'
    """
    found = list(islice(_inbox(app).items(*_range(app, first, last)), limit + 1))
    items = found[:limit]
    lines = [
        [
            output.moment(to_datetime(one.due_at)),
            output.clean(one.id),
            one.queue,
            output.clean(one.problem or one.payload.decode()),
        ]
        for one in items
    ]
    head = ["due", "id", "queue", "payload or problem"]
    answer_list(app, InboxItems(items=[Shown.of(one) for one in items]), head, lines, _NOTHING)
    if len(found) > limit:
        output.note("There are more; choose a shorter time with --from and --to, or a --limit.")


_NOTHING = "The inbox is empty at these times."


@inbox.command()
@between
@store_only
def replay(app: App, first: datetime | None, last: datetime | None) -> None:
    """Make jobs of everything that is in the inbox at these due times, however late it was put.
    What is put more than a day after its due time is found only so. Run it for times that are over:
    what is being delivered just now may be delivered twice.

    $ oncue inbox replay --from '2026-12-01 09:00' --to '2026-12-01 10:00'
    """
    count = _inbox(app).replay(*_range(app, first, last), app.scheduler.clock.now())
    noun = "item is a job" if count == 1 else "items are jobs"
    answer(app, {"moved": count}, f"{count:,} {noun} now.")


@inbox.command("set")
@click.option(
    "--shards",
    type=int,
    help="Partitions of a bucket. A new inbox needs them; later the default is as they are.",
)
@click.option(
    "--minutes",
    type=int,
    help=f"The length of a bucket. [default: as it is; {DEFAULTS.minutes} in a new inbox]",
)
@store_only
def set_(app: App, shards: int | None, minutes: int | None) -> None:
    """Give a table an inbox, or more shards, and show what it has then; without options only show
    it. Without an inbox, the processes on a table do not look for items. Shards can only be added,
    and the length of the buckets stays as it was first set, because items may be anywhere. Reading
    an inbox costs about a read unit for each shard and second, also while it is empty.

    $ oncue inbox set --shards 50 --minutes 10
    $ oncue inbox set
    $ oncue inbox set --shards 200
    """
    found = _inbox(app)
    known = found.settings()
    if known is None and shards is None:
        raise click.UsageError(
            "this table has no inbox yet. Say how many shards it gets with --shards: one for every "
            "500 items per second, or 0. They cannot be taken away."
        )
    known = known or DEFAULTS
    wanted = InboxSettings(
        known.minutes if minutes is None else minutes, known.shards if shards is None else shards
    )
    stored = found.set(wanted, app.scheduler.clock.now())
    answer(app, stored._asdict(), _told(stored))
    if stored.shards > wanted.shards:
        output.note(f"It had {counted(stored.shards, 'shard')}: they are never taken away.")
    if stored.minutes != wanted.minutes:
        output.note("The length of the buckets was chosen before, and stays.")


def _told(stored: InboxSettings) -> str:
    """The settings, as a producer needs them."""
    form = "j#BUCKET"
    if stored.shards:
        form += f", or j#BUCKET#SHARD with SHARD = crc32(ID) mod {stored.shards}"
    lengths = f"{counted(stored.minutes, 'minute')}, {counted(stored.shards, 'shard')}"
    return f"Buckets of {lengths}; partitions are {form}."


def _inbox(app: App) -> Inbox:
    found = getattr(app.scheduler.store, "inbox", None)
    if found is None:
        raise NotSupported("this store has no inbox; only DynamoDB tables have one.", "inbox")
    return cast(Inbox, found)


def _range(app: App, first: datetime | None, last: datetime | None) -> tuple[Moment, Moment]:
    until = app.scheduler.clock.now() if last is None else from_datetime(last)
    since = until - HOUR_MS if first is None else from_datetime(first)
    if since > until:
        raise click.UsageError("--from is later than --to.")
    if until - since > MOST_DAYS * 24 * HOUR_MS:
        raise click.UsageError(
            f"--from and --to are more than {MOST_DAYS} days apart. Every bucket between them is "
            "read, so choose shorter times."
        )
    return since, until
