"""The program: its commands, its options, how it ends.

Commands are imported when they are called, so that the program starts at once. What a command has
to say goes to standard output, everything else to standard error.
"""

from __future__ import annotations

import importlib
import io
import math
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from oncue import __version__, config
from oncue.core.errors import Conflict, InvalidInput, NotFound, OncueError, StoreError

if TYPE_CHECKING:
    from oncue.scheduler import Scheduler

EXIT_FAILED = 1  # the command ran and the answer is no
EXIT_USAGE = 2
EXIT_NOT_FOUND = 3
EXIT_CONFLICT = 4
EXIT_STORE = 5
EXIT_INTERRUPTED = 130

COMMANDS = {
    "jobs": "oncue.cli.jobs:jobs",
    "queues": "oncue.cli.queues:queues",
    "top": "oncue.cli.top:top",
    "forecast": "oncue.cli.forecast:forecast",
    "worker": "oncue.cli.worker:worker",
    "serve": "oncue.cli.serve:serve",
    "dump": "oncue.cli.transfer:dump",
    "restore": "oncue.cli.transfer:restore",
    "doctor": "oncue.cli.doctor:doctor",
    "bench": "oncue.cli.bench:bench",
    "config": "oncue.cli.config:config_group",
    "completion": "oncue.cli.completion:completion",
}

JSON_HELP = "One JSON document on standard output."
STORE_HELP = "Where jobs are kept (ONCUE_STORE)."
SHORT = 70  # characters that describe a command in a list
C = TypeVar("C", bound=Callable[..., Any] | click.Command)


class App:
    """What the commands share: the settings, and the scheduler once somebody asks for it."""

    def __init__(self, given: dict[str, Any], as_json: bool) -> None:
        self._given = given
        self.settings = config.read(given)
        self.as_json = as_json
        self._scheduler: Scheduler | None = None

    def give(self, name: str, value: Any) -> None:
        """Take a setting that was given behind the command."""
        self._given[name] = value
        self.settings = config.read(self._given)

    @property
    def cue(self) -> Scheduler:
        if self._scheduler is None:
            from oncue.scheduler import Scheduler

            url = str(self.settings["store"].value)
            missing = url.startswith("sqlite:///") and not os.path.exists(url[10:])
            self._scheduler = Scheduler(url)
            if url.startswith("memory:"):
                click.echo("memory: is empty, and forgotten when this command ends.", err=True)
            if missing:  # in the wrong folder, this line is the only hint
                click.echo(f"Created {url[10:]}, a new and empty store.", err=True)
        return self._scheduler

    def close(self) -> None:
        if self._scheduler is not None:
            self._scheduler.close()


class Group(click.Group):
    """A group whose unknown commands are answered with the nearest known one, and whose list tells
    what each command does rather than its examples. Commands in `places` are imported when they are
    called."""

    def __init__(self, *args: Any, places: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._places = places or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*self.commands, *self._places])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = self.find(ctx, cmd_name)
        if command is not None and command.short_help is None:
            told = [part for part in (command.help or "").split("\n\n") if part[:1] != "\b"]
            command.short_help = _in_short(told[0]) if told else ""
        return command

    def find(self, ctx: click.Context, name: str) -> click.Command | None:
        place = self._places.get(name)
        if place is None:
            return super().get_command(ctx, name)
        module, _, attribute = place.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            import difflib

            near = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            ctx.fail(f"there is no command '{name}'.{hint}")
        return super().resolve_command(ctx, args)


def _in_short(text: str) -> str:
    """The first sentence, or as much of it as makes sense alone."""
    sentence = text.split(". ")[0].split(": ")[0].rstrip(".")
    return sentence if len(sentence) <= SHORT else sentence.split(", ")[0]


class Program(Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Whoever read our output has seen enough. Caught here: click would call it a failure.
            discard_output()
            return 0

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)


def common(command: C) -> C:
    """`--store` and `--json` after the command as well as before it."""

    def as_json(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted:
            _app(ctx).as_json = True

    option = click.option(
        "--json", is_flag=True, expose_value=False, callback=as_json, help=JSON_HELP
    )
    return with_store(option(command))


def with_store(command: C) -> C:
    """`--store` after the command as well as before it."""

    def store(ctx: click.Context, _: click.Parameter, url: str | None) -> None:
        if url is not None:
            _app(ctx).give("store", url)

    option = click.option(
        "--store", metavar="URL", expose_value=False, callback=store, help=STORE_HELP
    )
    return option(command)


def refuse_json(app: App) -> None:
    """For commands that go on until they are stopped: there is no document to end with."""
    if app.as_json:
        raise click.UsageError("--json does not apply here: this command has no answer to print.")


def _app(ctx: click.Context) -> App:
    app = ctx.find_object(App)
    assert app is not None  # the program itself makes it, before any command is looked at
    return app


class Finite(click.FloatRange):
    """A number within bounds: neither infinite nor not a number."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def examples(*lines: str) -> str:
    """The first part of a help text: what people type."""
    return "\b\n" + "\n".join(f"  $ {line}" for line in lines)


@click.group(
    cls=Program,
    places=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="Durable scheduling of deferred work.\n\n"
    + examples(
        'oncue jobs add --queue mail --delay 2h \'{"to": "ada"}\'',
        "oncue jobs list --queue mail",
        "oncue top",
    ),
)
@click.option("--store", metavar="URL", help=STORE_HELP)
@click.option("--json", "as_json", is_flag=True, help=JSON_HELP)
@click.version_option(__version__, prog_name="oncue")
@click.pass_context
def cli(ctx: click.Context, store: str | None, as_json: bool) -> None:
    app = App({"store": store}, as_json)
    ctx.obj = app
    ctx.call_on_close(app.close)
    _log(app.settings["log_level"].value)


def main() -> NoReturn:
    """Run the program and end it with a code that scripts can rely on."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an old locale gets question marks, no traceback
    try:
        code = cli.main(prog_name="oncue", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as ended:
        code = ended.exit_code
    except click.Abort:
        code = _say("Interrupted.", EXIT_INTERRUPTED)
    except click.UsageError as error:
        error.show()
        code = EXIT_USAGE
    except click.ClickException as error:
        code = _say(f"Error: {error.format_message()}", error.exit_code)
    except OncueError as error:
        code = _say(f"Error: {sentence(error)}", exit_code(error))
    except KeyboardInterrupt:
        code = _say("Interrupted.", EXIT_INTERRUPTED)
    except BrokenPipeError:
        discard_output()
        code = 0
    except OSError as error:
        discard_output()
        place = f"{error.filename}: " if error.filename else ""
        code = _say(f"Error: {place}{error.strerror or error}.", EXIT_FAILED)
    sys.exit(code or 0)


def discard_output() -> None:
    """What is still buffered would fail once more at the very end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def sentence(error: OncueError) -> str:
    """What went wrong, the place named as on the command line: /retry/max_seconds is --retry-max
    there."""
    if not isinstance(error, InvalidInput) or not error.pointer.startswith("/"):
        return str(error)
    member, _, rest = error.pointer[1:].partition("/")
    if member == "payload":
        place = "PAYLOAD" + (f" /{rest}" if rest else "")
    else:
        place = "--" + error.pointer[1:].removesuffix("_seconds").translate(_DASHES)
    return f"{place}: {error.detail}"


_DASHES = str.maketrans("/_", "--")


def exit_code(error: OncueError) -> int:
    match error:
        case InvalidInput():
            return EXIT_USAGE
        case NotFound():
            return EXIT_NOT_FOUND
        case Conflict():
            return EXIT_CONFLICT
        case StoreError():
            return EXIT_STORE
    return EXIT_FAILED


def _say(text: str, code: int) -> int:
    click.echo(text, err=True)
    return code


def _log(level: str) -> None:
    import logging

    logging.basicConfig(
        level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
