"""# The command line

This page is made from the program: `python -m tests.acceptance.cli_page > docs/cli.md`.

The answer of a command goes to standard output, everything else to standard error. With `--json`,
before or after the command, the answer is one JSON document. Colours and moving bars appear only on
a terminal; `NO_COLOR=1` turns colours off. On a terminal, characters that cannot be printed are
shown as escapes (`\\x1b`, `\\u202e`) by every command; in files and pipes JSON is exact.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | the command ran, and the answer is no |
| 2 | wrong arguments, settings or input |
| 3 | there is no such job, queue, schedule, rule or token |
| 4 | valid, but conflicts with the current state of a job, a key or an id |
| 5 | the store or the server refused or failed |
| 6 | the server does not allow it: the access token is missing, unknown, or lacks a scope |
| 130 | interrupted |

## From another machine

Every command that reads or changes jobs, queues, rules, events and schedules also works with a
server (`oncue serve`), with the same answers and exit codes:

```
export ONCUE_URL=https://jobs.example.com ONCUE_TOKEN=oncue_…
oncue jobs list --queue mail
oncue top
```

There is one difference: only the store knows until when a job waits that its sink refused for now.
With `--url`, `oncue jobs show` asks the server to explain such a job and shows it too, but `oncue
jobs list` shows only the answer of the sink.

`migrate`, `dump`, `restore`, `adopt`, `token`, `inbox`, `serve`, `bench` and `aws invoke` need the
store itself and say so; `cost`, `aws template` and `aws simulate` need neither a store nor a
server. `oncue doctor` checks the server instead: whether it can be reached and is ready, its
version, what the token allows, and its clock. The server's clock decides whether a job is due,
while "in 5 min" is computed with the clock of this machine; if they differ by more than a few
seconds, a line on standard error says so. The token is never shown, not even by `oncue config
show`. Keep it in `ONCUE_TOKEN`: as an option it would be visible in the list of processes.

A command that the server turns away for now, because its store is away, tries again for half a
minute. On a terminal it says so at once, and at the end how long it has tried.

## Settings

A setting comes from an option, from the environment, or from `oncue.toml` in the current folder;
the first that has it wins. `store` and `url` exclude each other, so the first of the three
that has either of them decides: an explicit `--store` overrides `ONCUE_URL`, and the other way
round. If one of the three has both, the server is used. Unknown settings are refused.

| setting | variable | default | meaning |
|---|---|---|---|
"""

from __future__ import annotations

import contextlib
import inspect
import io
import textwrap
from collections.abc import Iterator

import click

from oncue import config
from oncue.cli.app import cli

WIDTH = 88
PRINTED = {"oncue cost": ["--jobs-per-day", "1M", "--keep-days", "0"]}
"""Commands that always print the same: the page shows what these arguments make them print."""


def page() -> str:
    """The module's docstring, the settings, and the help of every command."""
    lines = [(__doc__ or "").rstrip("\n")]
    for s in config.SETTINGS:
        default = "" if s.default is None else f"`{s.default}`"
        lines.append(f"| `{s.name}` | `{s.variable}` | {default} | {s.help} |")
    for ctx in contexts():
        ctx.terminal_width = WIDTH
        text = inspect.cleandoc(ctx.command.get_help(ctx)).rstrip()
        lines += ["", f"{'#' * _depth(ctx)} {ctx.command_path}", "", "```", text, "```"]
        if arguments := PRINTED.get(ctx.command_path):
            shown = " ".join([ctx.command_path, *arguments])
            lines += ["", "```", f"$ {shown}", *_printed(ctx.command, arguments), "```"]
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


def _printed(command: click.Command, arguments: list[str]) -> Iterator[str]:
    """What the command prints; sentences are broken into lines."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        command.main(arguments, standalone_mode=False)
    for line in out.getvalue().splitlines():
        is_text = "  " not in line.strip()
        indent = "  " if line.startswith("- ") else ""
        yield textwrap.fill(line, WIDTH, subsequent_indent=indent) if is_text else line


def _depth(ctx: click.Context) -> int:
    return 2 if ctx.parent is None or ctx.parent.parent is None else 3


if __name__ == "__main__":
    click.echo(page(), nl=False)
