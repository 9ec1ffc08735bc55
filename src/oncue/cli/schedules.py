"""`oncue schedules`: list, show, pause, resume, delete; apply: `apply`; next: `runs`."""

from __future__ import annotations

import click

from oncue.cli import nouns, output
from oncue.cli.app import App, Group, common
from oncue.cli.nouns import answer, answer_list, ask_about, named, yes_option
from oncue.core.moment import Moment
from oncue.core.recurrence import Fate, Outcome
from oncue.core.schedule import Schedule
from oncue.wire import schedules as wire
from oncue.wire.converting import written

OUTCOMES_SHOWN = 10
_FATES = {Fate.MISSED: "red", Fate.OVERLAPPED: "yellow", Fate.PAUSED: "yellow"}


@click.group(
    cls=Group, places={"apply": "oncue.cli.apply:schedules", "next": "oncue.cli.runs:next_"}
)
def schedules() -> None:
    """Recurring schedules.

    $ oncue schedules apply schedules.json
    $ oncue schedules list
    $ oncue schedules next nightly
    """


@schedules.command("list")
@common
def list_(app: App) -> None:
    """List all schedules by name: when they run, the next run, and what they create.

    $ oncue schedules list
    $ oncue schedules list --json | jq -r '.items[].name'
    """
    found = list(app.cue.schedules())
    items = [wire.Schedule.of(one) for one in found]
    now = app.cue.clock.now()
    lines = [[one.name, _when(one), _next(one, now), _makes(one)] for one in found]
    head = ["schedule", "when", "next", "makes"]
    nothing = "There are no schedules yet; 'oncue schedules apply FILE' makes some."
    answer_list(app, wire.Schedules(items=items, next_cursor=None), head, lines, nothing)


@schedules.command()
@named
def show(app: App, name: str) -> None:
    """Show one schedule: its settings, its next occurrence, and what became of the last ones.

    $ oncue schedules show nightly
    $ oncue schedules show NAME --json > one.json
    """
    schedule = ask_about(app, "schedule", name, lambda cue: cue.schedule_named(name))
    outcomes = app.cue.schedule_outcomes(name)
    if app.as_json:
        items = [written(wire.Outcome, one) for one in outcomes]
        output.document(wire.ScheduleWithOutcomes.of(schedule, outcomes=items))
        return
    output.pairs(*_settings(schedule, app.cue.clock.now()))
    if outcomes:
        click.echo()
        head = ["decided", "fate", "count", "occurrence", "job"]
        lines = [_outcome(one) for one in outcomes[-OUTCOMES_SHOWN:]]
        output.table(head, lines, right=[2])


@schedules.command()
@named
def pause(app: App, name: str) -> None:
    """Pause a schedule: it creates nothing until it is resumed. Jobs that are due stay.

    $ oncue schedules pause nightly
    """
    _tell_paused(app, ask_about(app, "schedule", name, lambda cue: cue.pause_schedule(name)))


@schedules.command()
@named
def resume(app: App, name: str) -> None:
    """Resume a schedule with its next occurrence. Occurrences during the pause are left out.

    $ oncue schedules resume nightly
    """
    _tell_paused(app, ask_about(app, "schedule", name, lambda cue: cue.resume_schedule(name)))


@schedules.command()
@yes_option
@named
def delete(app: App, name: str, yes: bool) -> None:
    """Delete a schedule. Its jobs that are due stay. To stop it for a while, pause it instead.

    $ oncue schedules delete nightly
    $ oncue schedules delete NAME --yes
    """
    ask_about(app, "schedule", name, lambda cue: cue.schedule_named(name))
    done = f"Deleted {name}. Its jobs that are due stay."
    nouns.delete(app, "schedule", name, yes, f"Delete {name}?", done)


def _tell_paused(app: App, schedule: Schedule) -> None:
    text = f"is resumed; next: {_next(schedule, app.cue.clock.now())}"
    text = f"Schedule {schedule.name} {'is paused' if schedule.paused else text}."
    answer(app, wire.Schedule.of(schedule), text)


def _when(schedule: Schedule) -> str:
    if schedule.every_seconds is not None:
        return f"every {output.length(schedule.every_seconds)}"
    return f"{schedule.cron} {schedule.timezone}"


def _next(schedule: Schedule, now: Moment) -> str:
    if schedule.paused:
        return output.paint("paused", "yellow")
    if schedule.next_at is None:
        return "never"
    return f"{output.moment(schedule.next_at)}, {output.relative(schedule.next_at, now)}"


def _makes(schedule: Schedule) -> str:
    if schedule.emits is not None:
        return output.clean(f"event {schedule.emits.event_type} {schedule.emits.resource_id}")
    return f"job in {schedule.queue}"


def _settings(schedule: Schedule, now: Moment) -> list[tuple[str, str]]:
    """As people read them."""
    makes_jobs = schedule.emits is None
    return [
        ("schedule", schedule.name),
        ("when", _when(schedule)),
        ("makes", _makes(schedule)),
        ("payload", output.clean(schedule.payload_json.decode()) if makes_jobs else ""),
        ("owner", output.clean(schedule.owner) if makes_jobs else ""),
        ("catch up", str(schedule.catch_up)),
        ("overlap", str(schedule.overlap)),
        ("next", _next(schedule, now)),
        ("last", "" if schedule.last_at is None else output.moment(schedule.last_at)),
        ("created", output.moment(schedule.created_at)),
        ("updated", output.moment(schedule.updated_at)),
    ]


def _outcome(one: Outcome) -> list[str]:
    until = "" if one.at == one.until else f" to {output.moment(one.until)}"
    return [
        output.moment(one.decided_at),
        output.paint(str(one.fate), _FATES.get(one.fate)),
        "many" if one.count is None else str(one.count),
        f"{output.moment(one.at)}{until}",
        one.job_id or "",
    ]
