"""`oncue token`: create, list, revoke, allow-loopback."""

from __future__ import annotations

import shlex

import click

from oncue.cli import output
from oncue.cli.app import App, Group, store_only
from oncue.cli.nouns import answer, answer_list
from oncue.core.access import AccessToken, Scope, check_scopes, check_token_name
from oncue.core.moment import to_datetime
from oncue.usecases.tokens import ALL_SCOPES, Access
from oncue.wire import tokens as wire

SCOPE_HELP = (
    f"What it allows: {', '.join(Scope)} (which includes the others). "
    "Several: repeat it, or put commas between. Default: all."
)


_REFUSED = (
    "servers refuse all requests until `oncue token create` makes one, or "
    "`oncue token allow-loopback` lets programs on this machine in without one."
)
_ACCEPTED = "servers accept requests of their own machine only. `oncue token create` makes a token."


@click.group(cls=Group)
def token() -> None:
    """Access tokens of the HTTP API.

    $ TOKEN=$(oncue token create --name ci --scope read,write)
    $ oncue token list
    $ oncue token revoke ci
    """


@token.command(context_settings={"allow_extra_args": True})
@click.option("--name", metavar="TEXT", help="A name for people, shown by `oncue token list`.")
@click.option("--scope", "scopes", metavar="SCOPE", multiple=True, help=SCOPE_HELP)
@store_only
def create(app: App, name: str | None, scopes: tuple[str, ...]) -> None:
    """Make a token and print it. It is shown only once: the store keeps a hash of it, and neither
    `oncue dump` nor a log contains it. Requests carry it as `Authorization: Bearer …`. As soon as
    there is a token, servers on this store refuse requests without one; they still do when it is
    revoked (see `oncue token allow-loopback`).

    $ TOKEN=$(oncue token create)
    $ oncue token create --name dashboard --scope read
    $ oncue token create --name worker --scope work,read --json
    """
    if others := click.get_current_context().args:
        raise click.UsageError(f"a name is an option: write --name {shlex.quote(others[0])}")
    app.may_create = True
    if name is not None:
        check_token_name(name)
    given = [part.strip() for part in ",".join(scopes).split(",")]
    wanted = check_scopes(given, "--scope") if scopes else frozenset(ALL_SCOPES)
    made, text = _access(app).create(name, wanted)
    answer(app, wire.AccessToken.of(made, text), text)
    every = "" if scopes else ": all, as no --scope was given"
    output.note(f"Token {_title(made)} allows {_scopes(made)}{every}. It is shown once; keep it.")


@token.command("list")
@store_only
def list_(app: App) -> None:
    """List all tokens, oldest first: id, name and scopes. If there are none, it says whether
    servers accept requests of their own machine (`closed` in JSON: they accept none).

    $ oncue token list
    $ oncue token list --json | jq -r '.items[].id'
    """
    access = _access(app)
    found, closed = access.tokens(), access.closed
    listed = [wire.AccessToken.of(one) for one in found]
    items = {"items": listed, "next_cursor": None, "closed": closed}
    lines = [
        [one.id, _scopes(one), output.moment(to_datetime(one.created_at)), one.name or "–"]
        for one in found
    ]
    nothing = f"There are no tokens; {_REFUSED if closed else _ACCEPTED}"
    answer_list(app, items, ["id", "scopes", "created", "name"], lines, nothing)


@token.command()
@click.argument("id_or_name", metavar="ID|NAME")
@store_only
def revoke(app: App, id_or_name: str) -> None:
    """Revoke a token for good, by its id or its name. Every server refuses it within a second.

    $ oncue token revoke 5f0c9a1be2d34477
    $ oncue token revoke ci
    """
    access = _access(app)
    ended = access.revoke(id_or_name)
    text = f"Token {_title(ended)} is revoked; every server refuses it within a second."
    answer(app, wire.AccessToken.of(ended), text)
    if not access.configured:
        output.note(f"It was the last one: {_REFUSED}")


@token.command("allow-loopback")
@store_only
def allow_loopback(app: App) -> None:
    """Accept requests without a token again, from the server's own machine. A store that had tokens
    stays closed when the last one is revoked; this opens it. Every program and every user of the
    machine can then do everything. Refused while there are tokens: revoke them first.

    $ oncue token allow-loopback
    """
    access = _access(app)
    changed = access.allow_loopback()
    text = "Servers accept requests of their own machine without a token" + (
        ", within a second." if changed else " already; nothing was changed."
    )
    answer(app, {"closed": False, "changed": changed}, text)


def _access(app: App) -> Access:
    return Access(app.scheduler.store, app.scheduler.clock)


def _title(of: AccessToken) -> str:
    return of.id if of.name is None else f"{of.id} ({of.name})"


def _scopes(of: AccessToken) -> str:
    return ", ".join(scope for scope in Scope if scope in of.scopes)
