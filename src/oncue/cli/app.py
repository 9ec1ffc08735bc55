"""The program: its commands, its options, how it ends.

Commands are imported when they are called, so that the program starts at once. What a command has
to say goes to standard output, everything else to standard error.
"""

from __future__ import annotations

import io
import math
import os
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import click

from oncue import __version__, config
from oncue.cli import terminal
from oncue.cli.failures import EXIT_FAILED, EXIT_INTERRUPTED, exit_code, sentence
from oncue.cli.group import Group as Group
from oncue.cli.group import show_examples
from oncue.core import errors
from oncue.core.redaction import redacted, shown_url

if TYPE_CHECKING:
    from oncue.client import Client
    from oncue.scheduler import Scheduler

COMMANDS = {
    "jobs": "oncue.cli.jobs:jobs",
    "queues": "oncue.cli.queues:queues",
    "rules": "oncue.cli.rules:rules",
    "events": "oncue.cli.events:events",
    "schedules": "oncue.cli.schedules:schedules",
    "tasks": "oncue.cli.tasks:tasks",
    "inbox": "oncue.cli.inbox:inbox",
    "adopt": "oncue.cli.adopt:adopt",
    "top": "oncue.cli.top:top",
    "nodes": "oncue.cli.nodes:nodes",
    "forecast": "oncue.cli.forecast:forecast",
    "cost": "oncue.cli.cost:cost",
    "aws": "oncue.cli.aws:aws",
    "reclaim": "oncue.cli.reclaim:reclaim",
    "worker": "oncue.cli.worker:worker",
    "serve": "oncue.cli.serve:serve",
    "migrate": "oncue.cli.migrate:migrate",
    "dump": "oncue.cli.transfer:dump",
    "restore": "oncue.cli.transfer:restore",
    "token": "oncue.cli.token:token",
    "doctor": "oncue.cli.doctor:doctor",
    "bench": "oncue.cli.bench:bench",
    "config": "oncue.cli.config:config_group",
    "completion": "oncue.cli.completion:completion",
}

_VISIBLE = (
    "Note: the list of processes shows the password in --store to all users of this machine. "
    "docs/postgresql.md, The password, names better places for it."
)
Cue: TypeAlias = "Scheduler | Client"
Command = Callable[..., None]
Decorator = Callable[[Command], Command]


class App:
    """The settings, and the store or server that they name, opened when it is first asked for."""

    def __init__(self) -> None:
        self._given: dict[str, Any] = {}
        self.settings = config.read()
        self.as_json = False
        self.may_create = False
        """Whether a store that does not exist is made. Elsewhere its name is a typing error."""

    def give(self, name: str, value: Any) -> None:
        """Take a setting that was given as an option."""
        self._given[name] = value
        if self._given.keys() >= {"store", "url"}:
            raise click.UsageError("--store and --url name two places; give one of them.")
        self.settings = config.read(self._given)
        if name == "store" and shown_url(value) != value:
            click.echo(_VISIBLE, err=True)

    @property
    def url(self) -> str | None:
        """The server to ask; None: the store is opened here."""
        url = self.settings["url"].value
        return None if url is None else str(url)

    @property
    def place(self) -> str:
        """Where the jobs are: a server or a store. The URL may hold a password."""
        return self.url or str(self.settings["store"].value)

    @property
    def shown_place(self) -> str:
        """The same as it may be printed."""
        return shown_url(self.place)

    @property
    def place_options(self) -> list[str]:
        """The option that leads here again, to be printed; none if the settings name it."""
        name = "store" if self.url is None else "url"
        return [f"--{name}", self.shown_place] if self.settings[name].origin == "option" else []

    def typed(self, *words: str) -> str:
        """A command on this place, to be printed for a shell."""
        return config.typed(self.place_options, *words)

    @property
    def file(self) -> Path | None:
        """The file of the store; None for a server, and for a store that has none."""
        scheme, _, path = self.place.partition(":///")
        return Path(path) if scheme == "sqlite" and path else None

    @property
    def is_missing(self) -> bool:
        """Whether the store's file or its tables do not exist yet."""
        if self.database is not None:
            return self._lacks_tables
        return self.file is not None and not self.file.exists()

    @property
    def database(self) -> str | None:
        """The URL of the store if it is in PostgreSQL."""
        is_there = self.url is None and self.place.startswith(("postgresql:", "postgres:"))
        return self.place if is_there else None

    @cached_property
    def _lacks_tables(self) -> bool:
        from oncue.stores.migration import lacks_tables

        return lacks_tables(self.place)

    @property
    def cue(self) -> Cue:
        """The facade of the store or of the server."""
        return self.scheduler if self.url is None else self.client

    @cached_property
    def scheduler(self) -> Scheduler:
        """On the store itself. Refused where the settings name a server."""
        from oncue.scheduler import Scheduler

        self.require_store()
        is_new = self.is_missing
        scheduler = Scheduler(
            self.place,
            operation_limits=config.operation_limits(self.settings),
            event_bounds=config.event_bounds(self.settings),
        )
        click.get_current_context().call_on_close(scheduler.close)
        self._lacks_tables = False
        if self.place.startswith("memory:"):
            click.echo("memory: is empty, and forgotten when this command ends.", err=True)
        if is_new:  # in the wrong folder, this line is the only hint
            place = self.file or self.shown_place
            click.echo(f"Created {place}, a new and empty store.", err=True)
        return scheduler

    def _missing_text(self) -> str:
        """The error for a store whose file or tables do not exist."""
        store = self.settings["store"]
        by = config.written(store, "store")
        origin = "the default" if store.origin == "default" else f"named by {by}"
        todo = "Name the right one with --store or ONCUE_STORE; adding a first job creates it."
        if self.file is None:
            from oncue.stores.postgresql.address import PgAddress

            schema = PgAddress.read(self.place).schema
            return (
                f"{self.shown_place}: there are no tables of oncue in schema {schema} of this "
                f"database. The URL is from {by}: correct it, or run 'oncue migrate' with it."
            )
        from oncue.stores.sqlite.connection import has_remains
        from oncue.stores.sqlite.presence import steps

        text = f"{self.file.absolute()}: there is no such file ({origin})."
        if not has_remains(self.file):
            return f"{text} {todo}"
        return (
            f"{text} But its log is there, so the file was deleted or moved away. Put the same "
            f"file back; or, for a backup or to begin without one: {steps(self.file)}"
        )

    @cached_property
    def client(self) -> Client:
        """Of the server, which has answered."""
        from oncue.cli import output, server

        client = server.client(self.settings)
        if sys.stderr.isatty():
            client.connection.on_trouble = output.note
        click.get_current_context().call_on_close(client.close)
        server.warn_of_skew(server.greet(client), self.shown_place)
        return client

    def require_store(self) -> None:
        """Refuse a server, and a store that does not exist unless it may be created."""
        if self.url is not None:
            command = click.get_current_context().command_path
            origin = config.written(self.settings["url"], "url")
            raise click.UsageError(
                f"'{command}' needs the store itself, and {origin} names a server. Run it where "
                "the store is, with --store instead."
            )
        if "token" in self._given:
            raise click.UsageError("--token goes with --url: a store does not ask for one.")
        if self.is_missing and not self.may_create:
            raise errors.StoreUnusable(self._missing_text())


class Program(Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader of the output has closed it. Caught here: click would call it a failure.
            discard_output()
            return 0
        except errors.AccessDenied as refusal:
            raise _explained(refusal, ctx.ensure_object(App)) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)


def setting(name: str, **attributes: Any) -> Decorator:
    """The option `--name`, whose value goes to the settings of the `App`."""

    def give(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        if value is not None:
            ctx.ensure_object(App).give(name, value)

    return click.option(f"--{name}", expose_value=False, callback=give, **attributes)


def _want_json(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        ctx.ensure_object(App).as_json = True


_STORE = setting("store", metavar="URL", help="Where jobs are kept (ONCUE_STORE).")
_URL = {"metavar": "URL", "help": "Ask this server instead of a store (ONCUE_URL)."}
_TOKEN_HELP = "The access token for it; better in ONCUE_TOKEN, where no process list shows it."
_JSON = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    callback=_want_json,
    help="One JSON document on standard output.",
)
pass_app = click.make_pass_decorator(App, ensure=True)


def common(command: Command) -> Command:
    """`--store`, `--url`, `--token` and `--json` after the command as well as before it. The
    command is called with the `App` first; so it is by the next three."""
    command = setting("token", metavar="TEXT", help=_TOKEN_HELP)(_JSON(pass_app(command)))
    return _STORE(setting("url", **_URL)(command))


def store_only(command: Command) -> Command:
    """`--store` and `--json`, for commands that need the store itself."""
    return with_store(_JSON(command))


def storeless(command: Command) -> Command:
    """`--json`, for commands that need neither a store nor a server."""
    return _JSON(pass_app(command))


def with_store(command: Command) -> Command:
    """`--store` after the command as well as before it. `--url` is taken too, to be refused with
    the reason."""
    return _STORE(setting("url", hidden=True, **_URL)(pass_app(command)))


def refuse_json(app: App) -> None:
    """For commands that go on until they are stopped: there is no document to end with."""
    if app.as_json:
        raise click.UsageError("--json does not apply here: this command has no answer to print.")


class Finite(click.FloatRange):
    """A number within bounds, neither infinite nor not a number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: Any) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


@click.group(
    cls=Program,
    places=COMMANDS,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "show_default": True,
    },
)
@click.version_option(__version__, prog_name="oncue")
@common
def cli(app: App) -> None:
    """Durable scheduling of deferred work.

    $ oncue jobs add --queue mail --delay 2h '{"to": "ada"}'
    $ oncue jobs list --queue mail
    $ oncue top
    """
    from oncue.telemetry import logs

    logs.configure(app.settings["log_level"].value, app.settings["log_format"].value)


show_examples(cli)


def main() -> NoReturn:
    """Run the program and end it with a code that scripts can rely on."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the program that started this one
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    terminal.guard()
    try:
        code = cli.main(prog_name="oncue", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as ended:
        code = ended.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = _say("Interrupted.", EXIT_INTERRUPTED)
    except click.ClickException as error:
        said = io.StringIO()
        error.show(said)  # it quotes arguments that are out of place
        click.echo(redacted(said.getvalue()), err=True, nl=False)
        code = error.exit_code
    except errors.OncueError as error:
        code = _say(redacted(f"Error: {sentence(error)}"), exit_code(error))
    except BrokenPipeError:
        discard_output()
        code = 0
    except OSError as error:
        discard_output()
        place = f"{error.filename}: " if error.filename else ""
        code = _say(f"Error: {place}{error.strerror or error}.", EXIT_FAILED)
    sys.exit(code or 0)


def _explained(refusal: errors.AccessDenied, app: App) -> errors.AccessDenied:
    """Who refuses, and how people at a terminal show a token."""
    if app.url is None:  # a module's own Client was refused, with whatever token it has
        return refusal
    token = app.settings["token"]
    if token.value is None:
        return errors.AccessDenied(
            f"{app.shown_place} refuses: {refusal} Show a token with ONCUE_TOKEN=…"
        )
    shown = config.written(token, "token")
    return errors.AccessDenied(f"{app.shown_place} refuses the token of {shown}: {refusal}")


def discard_output() -> None:
    """What is still buffered would fail once more at the very end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(text: str, code: int) -> int:
    click.echo(text, err=True)
    return code
