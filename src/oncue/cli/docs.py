"""docs/cli.md, made from the program itself: `python -m oncue.cli.docs > docs/cli.md`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from oncue import config
from oncue.cli.app import cli

WIDTH = 88

INTRODUCTION = """# The command line

This page is made from the program: `python -m oncue.cli.docs > docs/cli.md`.

What a command answers goes to standard output, everything else to standard error. With `--json`,
before or behind the command, the answer is one JSON document. Colours and bars that move appear
only on a terminal; `NO_COLOR=1` declines colours.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | the command ran, and the answer is no |
| 2 | wrong arguments, settings or input |
| 3 | there is no such job, queue, rule or token |
| 4 | not now: the state of the job, a key or an id forbids it |
| 5 | the store or the server refused or failed |
| 6 | the server does not allow it: the API token is missing, unknown, or lacks a scope |
| 130 | interrupted |

## From another machine

Every command that looks at jobs, queues, rules and events or changes them works as well against a
server (`oncue serve`) as against a store, with the same answers and exit codes:

```
export ONCUE_URL=https://jobs.example.com ONCUE_TOKEN=oncue_…
oncue jobs list --queue mail
oncue top
```

One thing is told by the store alone: until when a job waits that its sink refused for now. With
`--url`, `oncue jobs show` asks the server to explain such a job and tells it too, but `oncue jobs
list` shows only the answer of the sink.

`dump`, `restore`, `token`, `serve` and `bench` need the store itself and say so. `oncue doctor`
looks at the server instead: whether it can be reached and is ready, which version it has, what the
token allows, how its clock goes. Whether a job is due is judged by the server's clock, while
"in 5 min" is told by the clock here; if they are more than a few seconds apart, a line on standard
error says so. The token is never shown, not by `oncue config show` either. As an option it would be
seen in the list of processes, so keep it in `ONCUE_TOKEN`.

## Settings

From an option, from the environment, or from `oncue.toml` in the current folder; the first that has
one wins. `store` and `url` are two answers to one question, so the first of the three that has
either decides: an explicit `--store` undoes an `ONCUE_URL`, and the other way round. Where the same
of the three has both, the server is asked. Whatever is not a setting is refused.

| setting | variable | default | meaning |
|---|---|---|---|
"""


def page() -> str:
    lines = [INTRODUCTION.rstrip("\n")]
    for s in config.SETTINGS:
        default = "" if s.default is None else f"`{s.default}`"
        lines.append(f"| `{s.name}` | `{s.variable}` | {default} | {s.help} |")
    for ctx in contexts():
        ctx.terminal_width = WIDTH
        text = inspect.cleandoc(ctx.command.get_help(ctx)).rstrip()
        lines += ["", f"{'#' * _depth(ctx)} {ctx.command_path}", "", "```", text, "```"]
    return "\n".join(lines) + "\n"


def contexts(above: click.Context | None = None) -> Iterator[click.Context]:
    """One for each command, in the order in which they are listed."""
    ctx = above or click.Context(cli, info_name="oncue", **cli.context_settings)
    yield ctx
    if isinstance(ctx.command, click.Group):
        for name in ctx.command.list_commands(ctx):
            below = ctx.command.get_command(ctx, name)
            assert below is not None
            yield from contexts(click.Context(below, parent=ctx, info_name=name))


def _depth(ctx: click.Context) -> int:
    return 2 if ctx.parent is None or ctx.parent.parent is None else 3


if __name__ == "__main__":
    click.echo(page(), nl=False)
