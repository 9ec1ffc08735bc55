"""`oncue rules`: list, show, explain, delete here; apply in `apply`."""

from __future__ import annotations

import click

from oncue.cli import nouns, output, rule_windows
from oncue.cli.app import App, Group, common
from oncue.cli.nouns import answer_list, ask_about, named, yes_option
from oncue.cli.times import EVENT_TIME
from oncue.core import stamp as stamps
from oncue.core.rule import Rule
from oncue.wire import rules as wire
from oncue.wire.converting import written


@click.group(cls=Group, places={"apply": "oncue.cli.apply:rules"})
def rules() -> None:
    """Rules that create jobs from events.

    $ oncue rules apply rules.json
    $ oncue rules list
    $ oncue rules explain 'hourly load'
    """


@rules.command("list")
@common
def list_(app: App) -> None:
    """List all rules by name, with their dependencies and when they last fired.

    $ oncue rules list
    $ oncue rules list --json | jq -r '.items[].name'
    """
    found = list(app.cue.rules())
    items = [written(wire.Rule, rule) for rule in found]
    lines = [
        [
            output.clean(rule.name) + _disabled(rule),
            rule.queue,
            output.stamp(rule.last_instant),
            output.clean(", ".join(f"{one.type} {one.resource}" for one in rule.dependencies)),
        ]
        for rule in found
    ]
    head = ["rule", "queue", "last instant", "waits for"]
    nothing = "There are no rules yet; 'oncue rules apply FILE' makes some."
    answer_list(app, wire.Rules(items=items, next_cursor=None), head, lines, nothing)


@rules.command()
@named
def show(app: App, name: str) -> None:
    """Show one rule: its dependencies, and the job that it last created.

    $ oncue rules show 'hourly load'
    $ oncue rules show NAME --json > rule.json
    """
    rule = ask_about(app, "rule", name, lambda cue: cue.rule(name))
    if app.as_json:
        output.document(written(wire.Rule, rule))
        return
    output.pairs(
        ("rule", output.clean(rule.name)),
        ("enabled", "yes" if rule.enabled else output.paint("no", "yellow")),
        ("queue", rule.queue),
        ("payload", output.clean(rule.payload_json.decode())),
        ("created", output.moment(rule.created_at)),
        ("updated", output.moment(rule.updated_at)),
        *_last(rule),
    )
    click.echo()
    lines = [
        [str(one.type), output.clean(one.resource), rule_windows.life(one.life_seconds)]
        for one in rule.dependencies
    ]
    output.table(["type", "resource", "valid for"], lines)


@rules.command()
@click.argument("name")
@click.option("--at", type=EVENT_TIME, help="As of this time: RFC 3339, or local.  [default: now]")
@common
def explain(app: App, name: str, at: stamps.Stamp | None) -> None:
    """Explain why a rule has not fired. Draws when each dependency is valid, by its newest event up
    to that time, and says which event would fire the rule.

    $ oncue rules explain 'hourly load'
    $ oncue rules explain 'hourly load' --at '2026-12-01 13:30'
    $ oncue rules explain NAME --json | jq -r .sentence
    """
    when = None if at is None else stamps.to_datetime(at)
    standing = ask_about(app, "rule", name, lambda cue: cue.explain_rule(name, at=when))
    if app.as_json:
        output.document(wire.Standing.of(standing))
        return
    rule = standing.rule
    output.pairs(
        ("rule", output.clean(rule.name) + _disabled(rule)),
        ("at", output.stamp(standing.at)),
        ("met", output.paint("yes", "green") if standing.met else "no"),
        *_last(rule),
    )
    click.echo()
    sentence, width = output.localised(output.clean(standing.sentence)), output.table_width()
    click.echo("\n".join([*rule_windows.drawing(standing, width), ""]))
    click.echo(sentence if width is None else click.wrap_text(sentence, width))


@rules.command()
@yes_option
@named
def delete(app: App, name: str, yes: bool) -> None:
    """Delete a rule, its events and its decisions. Its jobs stay. Created again it is another rule:
    it accepts events that are sent again. To stop it for a while, apply it with "enabled": false
    instead.

    $ oncue rules delete 'hourly load'
    $ oncue rules delete NAME --yes
    """
    ask_about(app, "rule", name, lambda cue: cue.rule(name))
    shown = output.clean(name)
    question, done = f"Delete {shown} with all its events?", f"Deleted {shown}. Its jobs stay."
    nouns.delete(app, "rule", name, yes, question, done)


def _last(rule: Rule) -> list[tuple[str, str]]:
    instant = "" if rule.last_instant is None else output.stamp(rule.last_instant)
    return [("last instant", instant), ("last job", rule.last_job_id or "none yet")]


def _disabled(rule: Rule) -> str:
    return "" if rule.enabled else output.paint(" (disabled)", "yellow")
