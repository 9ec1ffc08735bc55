"""`oncue queues`: list, show, set, pause, resume, delete."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import click

from oncue.cli import nouns, output
from oncue.cli.app import App, Cue, Group, common
from oncue.cli.nouns import dry_run_option, named, yes_option
from oncue.cli.progress import counted
from oncue.cli.times import LENGTH, LENGTH_OR_NONE, NUMBER
from oncue.core.errors import Conflict, NotFound
from oncue.core.lifecycle import FINAL, State
from oncue.core.moment import Moment
from oncue.core.queue import Queue, QueueStats, check_queue_name, why_kept
from oncue.core.text import suggestion
from oncue.sinks import open_sink
from oncue.usecases import intake
from oncue.usecases.queues import unknown
from oncue.wire import queues as wire

NO_QUEUES = "There are no queues yet; the first job of a queue makes it."


@click.group(cls=Group)
def queues() -> None:
    """Look at queues and change them.

    $ oncue queues list
    $ oncue queues set mail --max-attempts 5 --lease 30s
    $ oncue queues pause mail
    """


@queues.command("list")
@common
def list_(app: App) -> None:
    """List all queues that were set or have held a job: how many jobs are in each state, and how
    late the oldest due one is.

    $ oncue queues list
    $ oncue queues list --json | jq -r '.items[].name'
    """
    found = app.cue.queues_with_stats()
    now = app.cue.clock.now()
    items = wire.Queues([wire.Queue.of(queue, stats) for queue, stats in found])
    head = ["queue", *map(str, State), "late", "settings"]
    lines = [
        [queue.name, *counts(stats), late(stats, now), _settings_line(queue)]
        for queue, stats in found
    ]
    if not output.has_room(head, lines):  # `show` tells the settings
        head, lines = head[:-1], [line[:-1] for line in lines]
    nouns.answer_list(app, items, head, lines, NO_QUEUES, right=range(1, 8))
    _note_uncounted(app, *(stats for _, stats in found))


@queues.command()
@named
def show(app: App, name: str) -> None:
    """Show one queue: its settings and its jobs.

    $ oncue queues show mail
    """
    [queue] = _known(app, name)
    stats, now = app.cue.stats(name), app.cue.clock.now()
    if app.as_json:
        output.document(wire.Queue.of(queue, stats))
        return
    output.pairs(("queue", queue.name), *_settings(queue).items())
    click.echo()
    by_state = zip(map(str, State), counts(stats), strict=True)
    output.pairs(*by_state, ("late", late(stats, now) or "–"))
    _note_uncounted(app, stats)


@queues.command("set")
@click.argument("name")
@click.option("--sink", metavar="URL", help="Where jobs are delivered. Default: workers pull them.")
@click.option(
    "--completion",
    type=click.Choice(["delivery", "worker"]),
    help="When a job has succeeded. Default: delivery if there is a sink, else worker.",
)
@click.option("--max-attempts", type=NUMBER, metavar="1-20", help="Default: 3.")
@click.option("--retry-initial", type=LENGTH, help="First pause after a failure. Default: 1s.")
@click.option("--retry-factor", type=NUMBER, help="Multiplies each further pause. Default: 2.")
@click.option("--retry-max", type=LENGTH, help="Longest pause after a failure. Default: 100s.")
@click.option("--lease", type=LENGTH, help="Longest time without a heartbeat. Default: 60s.")
@click.option("--timeout", type=LENGTH_OR_NONE, help="Longest attempt. Default: no limit.")
@click.option("--rate", type=NUMBER, help="Most jobs started per second. Default: no limit.")
@click.option("--concurrency", type=NUMBER, help="Most jobs running at once. Default: no limit.")
@click.option(
    "--retention",
    type=LENGTH_OR_NONE,
    help="How long finished jobs are kept; none or forever: without end. Default: 7d.",
)
@click.option(
    "--poison-after",
    type=NUMBER,
    metavar="0-100",
    help="Lost starts until a job fails. Default: 3; 0: never.",
)
@click.option(
    "--shards",
    type=NUMBER,
    metavar="1-1000",
    help="Parts over which waiting jobs may be spread; SQLite uses one. Default: the store's.",
)
@dry_run_option("change")
@common
def set_(app: App, /, name: str, dry_run: bool, **given: str | int | float | None) -> None:
    """Replace all settings of a queue: what is not given goes back to its default. Prints what
    changes. Lengths are seconds, or 90s, 15m, 2h30m, 3d, PT15M.

    $ oncue queues set mail --max-attempts 5 --lease 30s
    $ oncue queues set sms --rate 20 --concurrency 4
    $ oncue queues set audit --sink log: --retention forever --dry-run
    """
    check_queue_name(name, "NAME")
    app.may_create = True
    settings = _as_settings({k: v for k, v in given.items() if v is not None})
    wanted = intake.queue(name, settings)  # before a store is made for it
    before = app.cue.queue(name)
    new = replace(wanted, paused=before.paused)
    known = name in [queue.name for queue in app.cue.queues()]
    if new.sink is not None and app.url is None:  # a server tries its sinks itself
        open_sink(new.sink).close()
    if not dry_run:
        app.cue.set_queue(name, **settings)
    changes = _changes(_fields(before), _fields(new))
    if app.as_json:
        changed = {setting: {"from": old, "to": now} for setting, old, now in changes}
        output.document({"name": name, "dry_run": dry_run, "changed": changed, **_fields(new)})
    elif not changes and known:
        output.note(f"Queue {name} has these settings already; nothing changes.")
    elif not changes:
        done = "would be" if dry_run else "was"
        output.note(f"Queue {name} was not there before; it {done} made with default settings.")
    else:
        if dry_run:
            output.note(nouns.WOULD_CHANGE)
        output.table(["setting", "from", "to"], _changes(_settings(before), _settings(new)))
    if dry_run and new.sink is not None and app.url is not None:
        output.note("The sink was not tried: the server does that when it is set.")


@queues.command()
@named
def pause(app: App, name: str) -> None:
    """Pause a queue: none of its jobs is claimed or delivered until it is resumed.

    $ oncue queues pause mail
    """
    check_queue_name(name, "NAME")
    app.may_create = True
    names = [queue.name for queue in app.cue.queues()]
    app.cue.pause(name)
    nouns.answer(app, {"name": name, "paused": True}, _paused_line(app, name, "paused"))
    if name not in names:
        output.note(f"There was no queue of this name; it has no jobs.{suggestion(name, names)}")


@queues.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@common
def resume(app: App, names: tuple[str, ...]) -> None:
    """Resume paused queues. If there is no queue of one of these names, nothing is changed.

    $ oncue queues resume mail
    $ oncue queues resume mail sms
    """
    for queue in _known(app, *names):
        app.cue.resume(queue.name)
    documents = [{"name": name, "paused": False} for name in names]
    lines = [_paused_line(app, name, "no longer paused") for name in names]
    document = documents[0] if len(names) == 1 else {"items": documents}
    nouns.answer(app, document, "\n".join(lines))


@queues.command()
@yes_option
@named
def delete(app: App, name: str, yes: bool) -> None:
    """Delete a queue with its settings and its finished jobs. Refused while it has unfinished jobs,
    while a schedule or a rule makes jobs for it, and if it is built in.

    $ oncue queues delete mail
    $ oncue queues delete mail --yes
    """
    check_queue_name(name, "NAME")
    stats = app.cue.stats(name)
    _check_unused(app.cue, name, stats)
    _known(app, name)
    finished = "its finished jobs"
    if stats.counts.keys() >= FINAL:
        finished = counted(sum(stats.counts[state] for state in FINAL), "finished job")
    what = f"queue {name} with {finished}"
    nouns.delete(app, "queue", name, yes, f"Delete {what}?", f"Deleted {what}.")


def _check_unused(cue: Cue, name: str, stats: QueueStats) -> None:
    """Refuse what the deletion would refuse, before the question. The deletion looks again."""
    unfinished = any(stats.counts.get(state) for state in State if state not in FINAL)
    schedules = (s.name for s in cue.schedules() if s.queue == name and s.emits is None)
    rules = (rule.name for rule in cue.rules() if rule.queue == name)
    schedule, rule = next(schedules, None), next(rules, None)
    why = why_kept(name, unfinished=unfinished, schedule=schedule, rule=rule)
    if why is not None:
        raise Conflict(why)


def _paused_line(app: App, name: str, how: str) -> str:
    waiting = app.cue.stats(name).counts.get(State.SCHEDULED)
    jobs = "" if waiting is None else f"; scheduled jobs: {waiting:,}"
    return f"Queue {name} is {how}{jobs}."


def _known(app: App, *names: str) -> list[Queue]:
    """The queues of these names; raises if there is no queue of one of them."""
    for name in names:
        check_queue_name(name, "NAME")
    found = {queue.name: queue for queue in app.cue.queues()}
    for name in names:
        if name not in found:
            raise NotFound(f"{unknown(name)}{suggestion(name, found)}")
    return [found[name] for name in names]


def counts(stats: QueueStats) -> list[str]:
    """One text per state; what the store cannot count is a dash."""
    more = "+" if stats.approximate else ""
    return [f"{stats.counts[s]:,}{more}" if s in stats.counts else "–" for s in State]


def _note_uncounted(app: App, *every: QueueStats) -> None:
    if not app.as_json and not all(stats.counts for stats in every):
        output.note("–: not known, because this store cannot count its jobs.")


def late(stats: QueueStats, now: Moment) -> str:
    """How long the oldest due job has waited."""
    seconds = lateness(stats, now)
    return output.length(seconds) if seconds else ""


def lateness(stats: QueueStats, now: Moment) -> float:
    """The same in seconds; 0 if no job is due."""
    return max(0, now - (stats.oldest_due_at or now)) / 1000


def _fields(queue: Queue) -> dict[str, Any]:
    fields = asdict(queue) | {"completion": queue.completes_on}
    del fields["name"], fields["paused"]
    return fields


def _settings(queue: Queue) -> dict[str, str]:
    """The settings as people read them."""
    retry = queue.retry
    return {
        "paused": "yes" if queue.paused else "no",
        "sink": output.clean(queue.sink) or "none: pulled by workers",
        "completion": queue.completes_on,
        "max attempts": str(queue.max_attempts),
        "retry": f"after {output.length(retry.initial_seconds)}, then × {retry.factor:g}, "
        f"at most {output.length(retry.max_seconds)}",
        "lease": output.length(queue.lease_seconds),
        "timeout": _maybe(queue.timeout_seconds),
        "rate": _rate(queue) or "any",
        "concurrency": _concurrency(queue) or "any",
        "retention": _kept(queue),
        "poison after": counted(queue.poison_after, "lost start")
        if queue.poison_after
        else "never",
        "shards": str(queue.shards or "the store decides"),
    }


def _settings_line(queue: Queue) -> str:
    paused = output.paint("paused, ", "yellow") if queue.paused else ""
    sink = output.clean(queue.sink) or "pulled"
    attempts = (
        f"{counted(queue.max_attempts, 'attempt')}, lease {output.length(queue.lease_seconds)}"
    )
    limits = "".join(f", {bound}" for bound in (_rate(queue), _concurrency(queue)) if bound)
    return f"{paused}{sink}, {attempts}{limits}, kept {_kept(queue)}"


def _rate(queue: Queue) -> str:
    return "" if queue.rate_per_second is None else f"{queue.rate_per_second:,.12g} a second"


def _concurrency(queue: Queue) -> str:
    return "" if queue.concurrency is None else f"{queue.concurrency:,} at once"


def _kept(queue: Queue) -> str:
    seconds = queue.retention_seconds
    return "for ever" if seconds is None else output.length(seconds)


def _maybe(seconds: float | None) -> str:
    return "none" if seconds is None else output.length(seconds)


_RETRY = {"retry_initial": "initial_seconds", "retry_factor": "factor", "retry_max": "max_seconds"}
_NAMES = {"rate": "rate_per_second"} | {
    k: f"{k}_seconds" for k in ("lease", "timeout", "retention")
}


def _as_settings(options: dict[str, Any]) -> dict[str, Any]:
    """The options as `set_queue` takes them."""
    retry = {_RETRY[name]: options.pop(name) for name in _RETRY if name in options}
    settings = {_NAMES.get(k, k): None if v == "none" else v for k, v in options.items()}
    return settings | {"retry": retry} if retry else settings


def _changes(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    return [(name, old[name], new[name]) for name in new if old[name] != new[name]]
