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
| 3 | there is no such job or queue |
| 4 | not now: the state of the job or a key forbids it |
| 5 | the store refused or failed |
| 130 | interrupted |

## Settings

From an option, from the environment, or from `oncue.toml` in the current folder; the first that has
one wins. Whatever is not a setting is refused.

| setting | variable | default | meaning |
|---|---|---|---|
"""


def page() -> str:
    lines = [INTRODUCTION.rstrip("\n")]
    for s in config.SETTINGS:
        lines.append(f"| `{s.name}` | `{s.variable}` | `{s.default}` | {s.help} |")
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
