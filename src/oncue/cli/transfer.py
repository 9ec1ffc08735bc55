"""`oncue dump` and `oncue restore`: a whole store out, a whole store in."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

import click
from msgspec import structs

from oncue.cli import output
from oncue.cli.app import App, discard_output, store_only
from oncue.cli.progress import ProgressBar, counted
from oncue.core.errors import InvalidInput
from oncue.core.queue import check_queue_name
from oncue.transfer import dump as transfer
from oncue.transfer.restore import Restore, Restored
from oncue.usecases.tokens import Access
from oncue.wire.dump import DumpCounts


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True), default="-")
@click.option(
    "--queue", metavar="NAME", help="Only this queue and its jobs; no schedules, rules or events."
)
@click.option("--resume", is_flag=True, help="Continue a dump to FILE that was interrupted.")
@store_only
def dump(app: App, file: str, queue: str | None, resume: bool) -> None:
    """Write the whole store as JSON lines: queues, schedules, rules, events, and jobs of every
    state with their history. Access tokens are left out, and items of an inbox that are not jobs
    yet. Without FILE, or with -, to standard output. A job that changes during the dump is in it
    as it was before or after the change; on DynamoDB perhaps both, and a restore takes the first.

    $ oncue dump jobs.ndjson
    $ oncue dump jobs.ndjson --resume
    $ oncue dump | gzip > jobs.ndjson.gz
    """
    if file == "-" and (resume or app.as_json):
        option = "--resume" if resume else "--json"
        raise click.UsageError(f"{option} needs a FILE; standard output gets the dump itself.")
    if queue is not None:
        check_queue_name(queue)
    app.require_store()
    with _explained(file):
        if file == "-":
            counts = _dump(app, sys.stdout.buffer, queue, transfer.NOT_BEGUN)
        else:
            counts = _dump_to_file(app, Path(file), queue, resume)
    size = None if file == "-" else Path(file).stat().st_size
    if app.as_json:
        output.document({"file": file, "bytes": size, **structs.asdict(counts)})
    else:
        where = "to standard output" if size is None else f"to {file} ({size:,} bytes)"
        click.echo(f"Dumped {counts} {where}.", err=True)
    if _has_inbox(app):
        output.note("Items of the inbox that are not jobs yet are not in it.")
    if tokens := len(Access(app.scheduler.store, app.scheduler.clock).tokens()):
        output.note(
            f"Without {counted(tokens, 'access token')}: where it is restored, make them anew with "
            "'oncue token create'."
        )


def _has_inbox(app: App) -> bool:
    inbox = getattr(app.scheduler.store, "inbox", None)
    return inbox is not None and inbox.settings() is not None


def _dump_to_file(app: App, path: Path, queue: str | None, resume: bool) -> DumpCounts:
    is_device = path.exists() and not path.is_file()
    with open(path, "r+b" if resume else "wb" if is_device else "xb", opener=_private) as out:
        since = _interrupted(app, out, queue) if resume else transfer.NOT_BEGUN
        if since.complete is not None:
            return since.complete
        if resume:
            out.truncate(since.size)
            out.seek(since.size)
        counts = _dump(app, out, queue, since)
        if not is_device:
            os.fsync(out.fileno())
        return counts


def _private(path: str, flags: int) -> int:
    """A new file can be read by its owner only."""
    return os.open(path, flags, 0o600)


def _interrupted(app: App, file: BinaryIO, queue: str | None) -> transfer.Interrupted:
    """Where the dump in the file goes on. It must have been begun from this store."""
    try:
        since = transfer.interrupted(file)
    except InvalidInput as problem:
        raise InvalidInput(f"{file.name}: {problem}") from None
    header = since.header
    if header is None:
        return since
    if header.queue != queue:
        begun = f"--queue {header.queue}" if header.queue else "no --queue"
        raise InvalidInput(f"{file.name}: this dump was begun with {begun}; go on with the same.")
    here = transfer.origin(app.scheduler.store)
    if _place(header.store) != _place(here):
        raise InvalidInput(
            f"{file.name}: this dump was begun from {_place(header.store)}, not from "
            f"{_place(here)}; go on from the same store, or dump to another file."
        )
    return since


def _place(origin: Mapping[str, str]) -> str:
    """The file, the table or the database that a dump is from."""
    if "place" in origin:
        return f"schema {origin.get('schema_name')} of {origin['place']}"
    if "table" in origin:
        return f"table {origin['table']}"
    return origin.get("path", origin["kind"])


def _dump(app: App, out: BinaryIO, queue: str | None, since: transfer.Interrupted) -> DumpCounts:
    total = _expected(app, queue) if sys.stderr.isatty() else None
    with ProgressBar("dump", total) as bar:
        dumping = transfer.Dump(app.scheduler.store, out, queue)
        dumping.notify = lambda counts, size: bar.update(counts.jobs, f"{counts.jobs:,} jobs")
        return dumping.write(since)


def _expected(app: App, queue: str | None) -> int:
    found = app.scheduler.queues_with_stats()
    return sum(sum(stats.counts.values()) for one, stats in found if queue in (None, one.name))


@contextmanager
def _explained(file: str) -> Iterator[None]:
    """Errors that end a dump early say what to do next."""
    try:
        yield
    except BrokenPipeError:
        # Elsewhere a closed output is no failure; but a dump that ends early cannot be restored.
        discard_output()
        raise click.ClickException("standard output was closed; the dump is incomplete.") from None
    except FileExistsError:
        raise InvalidInput(
            f"{file}: the file exists. Choose another name; or, if a dump to it was interrupted, "
            f"continue it with: oncue dump {file} --resume"
        ) from None
    except FileNotFoundError:
        raise InvalidInput(f"{file}: there is no such file to resume, or no such folder.") from None
    except OSError as error:
        name = "standard output" if file == "-" else file
        if file == "-":
            discard_output()
        raise click.ClickException(
            f"{name}: {error.strerror}; the dump is incomplete. Make room, or choose another "
            f"place.{_go_on(file)}"
        ) from None
    except KeyboardInterrupt:
        click.echo(f"\nThe dump is incomplete.{_go_on(file)}", err=True)
        raise


def _go_on(file: str) -> str:
    return f" Continue with: oncue dump {file} --resume" if Path(file).is_file() else ""


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--release", is_flag=True, help="At the end, resume the queues that were not paused.")
@click.option("--dry-run", is_flag=True, help="Check the dump and count; store nothing.")
@store_only
def restore(app: App, file: str, release: bool, dry_run: bool) -> None:
    """Restore a dump into the store, from FILE or, with -, from standard input. Jobs and events
    that the store has already are not changed, nor are queues, schedules and rules of the same
    name, so an interrupted restore can be repeated. The queues of the dump, of its schedules and of
    its rules are paused, also those that the store had already; resume them with --release or
    'oncue queues resume', once no process works on the old store. Access tokens are not in a dump;
    make them with 'oncue token create'.

    $ oncue restore jobs.ndjson --dry-run
    $ oncue --store sqlite:///new.db restore jobs.ndjson
    $ zcat jobs.ndjson.gz | oncue restore - --release
    """
    app.may_create = True
    app.require_store()
    if app.is_missing:
        from oncue.stores.memory import MemoryStore

        restoring = Restore(MemoryStore(), create=lambda: app.scheduler.store, dry_run=dry_run)
    else:
        _note_users(app)
        restoring = Restore(app.scheduler.store, dry_run=dry_run)
    size = None if file == "-" else os.stat(file).st_size
    with click.open_file(file, "rb") as source, ProgressBar("restore", size) as bar:
        try:
            restored = restoring.read(
                source, lambda counts, read: bar.update(read, f"{counts.jobs:,} jobs")
            )
        except InvalidInput as problem:
            name = "standard input" if file == "-" else file
            raise InvalidInput(f"{name}: {problem}") from None
    if release:
        restoring.release()
    _tell_restored(app, restored, dry_run)


def _note_users(app: App) -> None:
    """A store that others work on can be restored into, but perhaps another one was meant."""
    if users := app.scheduler.nodes():
        output.note(
            f"This store is in use by {counted(len(users), 'node')} (see 'oncue nodes'). The "
            "queues of the dump are paused there, too."
        )


def _resume_command(app: App, restored: Restored) -> str:
    """For the queues that were not paused before; if all were, for all."""
    going = [name for name in restored.paused if name not in restored.paused_before]
    return app.typed("queues", "resume", *(going or restored.paused))


def _tell_restored(app: App, restored: Restored, dry_run: bool) -> None:
    if app.as_json:
        output.document({"dry_run": dry_run, **asdict(restored)})
        return
    would = "Would store" if dry_run else "Stored"
    counts = (restored.stored, restored.queues, restored.schedules, restored.rules, restored.events)
    click.echo(f"{would} {DumpCounts(*counts)}.")
    if restored.existing:
        click.echo(f"Existed already, and not changed: {counted(restored.existing, 'job')}.")
    sentences = {
        "These queues are different here, and were not changed: {}.": restored.kept_queues,
        "These schedules are different here, and were not changed: {}.": restored.kept_schedules,
        "These rules are different here, and were not changed: {}.": restored.kept_rules,
        "Paused: {}. Resume them with: {}": [] if dry_run else restored.paused,
        "Paused when they were dumped: {}.": restored.paused_before,
    }
    for sentence, names in sentences.items():
        if names:
            shown = ", ".join(map(output.clean, names))
            click.echo(sentence.format(shown, _resume_command(app, restored)))
