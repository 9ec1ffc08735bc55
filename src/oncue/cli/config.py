"""`oncue config`: the settings in force, and where they come from."""

from __future__ import annotations

import click

from oncue import config
from oncue.cli.app import App, Group, common
from oncue.cli.nouns import answer_list


@click.group("config", cls=Group)
def config_group() -> None:
    """Look at the settings. They come from options, from ONCUE_ variables, or from oncue.toml in
    the current folder; the first that has one wins. `store` and `url` exclude each other: the first
    of the three that has either decides. Unknown settings are refused.

    $ oncue config show
    $ oncue config show --json
    """


@config_group.command()
@common
def show(app: App) -> None:
    """Show every setting, its value, and where it comes from.

    $ oncue config show
    $ ONCUE_STORE=sqlite:////var/lib/oncue/jobs.db oncue config show
    """
    items = [
        {
            "name": setting.name,
            "value": app.settings[setting.name].shown(setting),
            "origin": app.settings[setting.name].origin,
            "default": setting.default,
            "variable": setting.variable,
            "help": setting.help,
        }
        for setting in config.SETTINGS
    ]
    shown = ("name", "value", "origin", "variable", "help")
    lines = [["–" if item[key] is None else str(item[key]) for key in shown] for item in items]
    head = ["setting", "value", "from", "variable", "meaning"]
    answer_list(app, {"settings": items}, head, lines, nothing="")
