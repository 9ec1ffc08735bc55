"""`oncue worker`: runs the handlers that a module registers."""

from __future__ import annotations

import importlib
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeGuard

import click

from oncue import config
from oncue.cli import output
from oncue.cli.app import App, Cue, pass_app, refuse_json, setting
from oncue.cli.collection import spare_collector
from oncue.cli.same_store import are_same
from oncue.cli.serve import place as store_of
from oncue.cli.server import client
from oncue.cli.stopping import Stopping
from oncue.core.errors import StoreError
from oncue.core.redaction import shown_url

if TYPE_CHECKING:
    from oncue.worker.worker import Worker


@click.command()
@click.argument("place", metavar="MODULE:SCHEDULER")
@setting("concurrency", type=click.IntRange(min=1), help="Handlers that run side by side.")
@click.option("--name", help="The name of this worker; no other may have it.")
@click.option("--until-empty", is_flag=True, help="End when the queues are empty.")
@click.option(
    "--no-engine", is_flag=True, help="No loops; another process runs them ('oncue serve')."
)
@setting("url", metavar="URL", help="Work for the server at this address, not for a store.")
@setting("token", help="The access token for it; ONCUE_TOKEN keeps it out of process lists.")
@setting("store", hidden=True, metavar="URL")  # to be refused with the reason
@pass_app
def worker(app: App, place: str, name: str | None, until_empty: bool, no_engine: bool) -> None:
    """Run the handlers that a module registers. MODULE is imported, also from the current folder;
    SCHEDULER is its name for the Scheduler (or Client) that the handlers are registered with, and
    whose store (or server) is used, unless --url names another server; ONCUE_STORE and oncue.toml
    do not change it. SIGTERM or Ctrl-C ends it: the first lets running handlers finish, the second
    does not.

    $ oncue worker tasks:cue
    $ oncue worker shop.tasks:cue --concurrency 4
    $ oncue worker tasks:cue --until-empty
    $ oncue worker tasks:cue --url https://jobs.example.com
    """
    from oncue.scheduler import Scheduler
    from oncue.worker.worker import Worker

    refuse_json(app)
    if app.settings["store"].origin == "option":
        raise click.UsageError(
            "--store does not apply here: the module's Scheduler names its own store. Write the "
            "URL there: Scheduler('URL')."
        )
    cue = _host(place, app)
    if no_engine and not isinstance(cue, Scheduler):
        raise click.UsageError("--no-engine does not apply here: the server runs the loops.")
    working = Worker(cue, concurrency=app.settings["concurrency"].value, name=name)
    queues = ", ".join(cue.handlers)
    if isinstance(cue, Scheduler):
        _warn_of_another_store(app.settings["store"], place, cue.store_url)
    where = store_of(cue) if isinstance(cue, Scheduler) else f"server {cue.connection.address.url}"
    output.note(f"oncue worker {working.name}: queues {queues}; {where}.")
    if isinstance(cue, Scheduler) and not no_engine:
        cue.run_loops()
    spare_collector()
    _work(cue, working, until_empty)


def _host(place: str, app: App) -> Cue:
    """Whose handlers are run, and where: as the module says, or at the server that was named here.
    A server that only the environment names is not used: it is for commands that look at jobs."""
    if app.settings["url"].origin != "option":
        if app.settings["token"].origin == "option":
            raise click.UsageError("--token goes with --url.")
        return host_at(place)
    cue = client(app.settings)
    found = host_at(place)
    cue.handlers = found.handlers
    found.close()
    return cue


def _warn_of_another_store(store: config.Value, place: str, url: str | None) -> None:
    """A module that names its own store may do so on purpose, or by mistake."""
    if store.origin == "default" or url is None or are_same(store.value, url):
        return
    by, in_file = store.origin, store.origin == config.FILE
    text = "'URL'" if in_file else f"os.environ['{by}']"
    output.note(
        f"Warning: {place} works on {shown_url(url)}, the store that its module names, and not on "
        f"{shown_url(store.value)}, which {by} names. To use that one, write in the module: "
        f"Scheduler({text})"
    )


def _work(cue: Cue, working: Worker, until_empty: bool) -> None:
    """In a thread of its own, so that the signals come here."""
    with Stopping("letting running handlers finish") as stopping, ThreadPoolExecutor(1) as pool:
        ended = pool.submit(working.run, until_empty=until_empty)
        ended.add_done_callback(lambda _: stopping.end())
        stopping.wait()
        working.stop()
        ended.result()
        cue.close()
    output.note("Stopped." if stopping.asked else "Nothing is left to do.")


def host_at(place: str) -> Cue:
    """The Scheduler or Client that a module has under a name."""
    module_name, _, attribute = place.partition(":")
    if not module_name or not attribute or "/" in place:
        raise _wrong(f"{place!r} is not MODULE:SCHEDULER; write it like tasks:cue.")
    if module_name.endswith(".py"):
        better = f"{module_name.removesuffix('.py')}:{attribute}"
        raise _wrong(f"give the module, not its file: {better}")
    module = _imported(module_name)
    found: Any = module
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise _wrong(f"module {module_name!r} has no {attribute!r}.{_hint(module)}")
        found = getattr(found, name)
    if not _is_host(found):
        kind = type(found).__name__
        raise _wrong(f"{place} is not a Scheduler but of type {kind}.{_hint(module)}")
    if not found.handlers:
        raise _wrong(
            f"{place} has no handlers; decorate a function in {module_name} with "
            f"@{attribute}.handler('queue')."
        )
    return found


def _imported(name: str) -> object:
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise _wrong(f"importing {name!r} failed: {error}. Install what is missing.") from error
        raise _wrong(
            f"there is no module {name!r} in {os.getcwd()} or among the installed ones. "
            "Change to the folder that has it, or install it."
        ) from None
    except StoreError:  # of a Scheduler that it makes; it may pass, unlike a wrong MODULE
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error} ({_line(error)})"
        raise _wrong(f"importing {name!r} failed: {why}.") from error


def _line(error: Exception) -> str:
    """Where in the user's code it happened."""
    import traceback

    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename}, line {frame.lineno}"


def _is_host(value: object) -> TypeGuard[Cue]:
    from oncue.client import Client
    from oncue.scheduler import Scheduler

    return isinstance(value, Scheduler | Client)


def _hint(module: object) -> str:
    names = [name for name, value in vars(module).items() if _is_host(value)]
    return f" Its Schedulers: {', '.join(names)}." if names else " It has no Scheduler at all."


def _wrong(text: str) -> click.BadParameter:
    return click.BadParameter(text, param_hint="MODULE:SCHEDULER")
