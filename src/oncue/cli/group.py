"""Commands in groups: found by name, told in one line, imported when they are called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from inspect import cleandoc
from textwrap import indent
from typing import Any

import click

from oncue.core.text import suggestion

SHORT = 70  # characters that describe a command in a list
MAKERS = ("add", "create", "set", "apply", "new", "put")


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
        command = super().get_command(ctx, cmd_name)
        if place := self._places.get(cmd_name):
            module, _, attribute = place.partition(":")
            command = getattr(importlib.import_module(module), attribute)
        if command is not None and command.short_help is None:
            show_examples(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            hint = _nearest(name, self.list_commands(ctx))
            ctx.fail(f"there is no command '{name}'.{hint}")
        return super().resolve_command(ctx, args)


def _nearest(name: str, names: list[str]) -> str:
    """As `suggestion`; whoever wants to make something is told the verb that does it here."""
    maker = next((verb for verb in MAKERS if verb in names), name)
    return suggestion(maker if name in MAKERS else name, names)


def show_examples(command: click.Command) -> None:
    """Take the help from a docstring: paragraphs of text, then the examples, lines that begin with
    `$`. A command's help shows the examples first, as they are read most; its short help is the
    beginning of the text."""
    parts = cleandoc(command.help or "").split("\n\n")
    texts = [part for part in parts if not part.startswith("$ ")]
    examples = ["\b\n" + indent(part, "  ") for part in parts if part.startswith("$ ")]
    command.short_help = _in_short(" ".join(texts[0].splitlines()))
    shown = texts + examples if isinstance(command, click.Group) else examples + texts
    command.help = "\n\n".join(shown)


def _in_short(text: str) -> str:
    """The first sentence, or as much of it as makes sense alone."""
    sentence = text.split(". ")[0].split(": ")[0].rstrip(".")
    return sentence if len(sentence) <= SHORT else sentence.split(", ")[0]
