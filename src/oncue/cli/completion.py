"""`oncue completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import click

from oncue.cli.app import App, cli, pass_app, refuse_json

INSTALL = {
    "bash": "oncue completion bash > ~/.local/share/bash-completion/completions/oncue",
    "zsh": 'oncue completion zsh > "${fpath[1]}/_oncue"',
    "fish": "oncue completion fish > ~/.config/fish/completions/oncue.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(list(INSTALL)))
@pass_app
def completion(app: App, shell: str) -> None:
    """Print the script that makes a shell complete commands. New shells know it once it is
    installed as above.

    $ oncue completion bash > ~/.local/share/bash-completion/completions/oncue
    $ oncue completion zsh > "${fpath[1]}/_oncue"
    $ oncue completion fish > ~/.config/fish/completions/oncue.fish
    """
    refuse_json(app)
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    completing = kind(cli, {}, "oncue", "_ONCUE_COMPLETE")
    script = (completing.source_template % completing.source_vars()).strip()
    install = f"# Install: {INSTALL[shell]}"
    # zsh wants its own first line; people read the second as well.
    first, _, rest = script.partition("\n")
    lines = [first, install, rest] if first.startswith("#compdef") else [install, script]
    click.echo("\n".join(lines))
