"""`oncue token`: a token is printed once, alone, and never again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from oncue.core.access import Scope
from oncue.usecases.tokens import Access

from .terminal import run, scheduler, shell

TEXT = re.compile(r"oncue_[0-9a-f]{16}_[A-Za-z0-9_-]{43}")


def scopes_of(text: str, cwd: Path) -> frozenset[Scope] | None:
    with scheduler(cwd) as cue:
        return Access(cue.store, cue.clock).scopes_of(text)


def test_create_prints_the_token_alone_and_says_the_rest_beside_it(tmp_path: Path) -> None:
    ended = run("token", "create", cwd=tmp_path)
    text = ended.out.removesuffix("\n")
    assert ended.code == 0
    assert TEXT.fullmatch(text)
    assert scopes_of(text, tmp_path) == frozenset(Scope)
    assert f"Token {text.split('_')[1]} allows read, write, work, admin: all" in ended.err
    assert "no --scope was given. It is shown once; keep it." in ended.err
    assert text not in ended.err


def test_a_shell_takes_the_token_into_a_variable(tmp_path: Path) -> None:
    ended = shell('TOKEN=$(oncue token create --name ci); echo "<$TOKEN>"', cwd=tmp_path)
    assert TEXT.fullmatch(ended.out.strip()[1:-1])


@pytest.mark.parametrize(
    "options",
    [("--scope", "work,read"), ("--scope", "read", "--scope", "work"), ("--scope=work, read",)],
)
def test_scopes_are_repeated_or_separated_by_commas(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    ended = run("token", "create", *options, cwd=tmp_path)
    assert scopes_of(ended.out.strip(), tmp_path) == frozenset({Scope.READ, Scope.WORK})
    assert "allows read, work. It is shown once" in ended.err


def test_create_as_json_is_one_document(tmp_path: Path) -> None:
    told = run("token", "create", "--name", "ci", "--scope", "read", "--json", cwd=tmp_path).json
    assert set(told) == {"id", "name", "scopes", "created_at", "token"}
    assert (told["name"], told["scopes"]) == ("ci", ["read"])
    assert told["token"].startswith(f"oncue_{told['id']}_")
    assert scopes_of(told["token"], tmp_path) == frozenset({Scope.READ})


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            ("--scope", "root"),
            "--scope: 'root' is not a scope; choose from read, write, work, admin.",
        ),
        (("--scope", "read,"), "--scope: '' is not a scope"),
        (("ci",), "a name is an option: write --name ci"),
        (("--name", ""), "--name: a token's name is 1 to 80 printable characters"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_made(
    tmp_path: Path, options: tuple[str, ...], complaint: str
) -> None:
    ended = run("token", "create", *options, cwd=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert complaint in ended.err
    assert list(tmp_path.iterdir()) == []


def test_list_shows_every_token_and_no_secret(tmp_path: Path) -> None:
    first = run("token", "create", "--name", "ci", "--scope", "read", cwd=tmp_path).out.strip()
    second = run("token", "create", cwd=tmp_path).out.strip()
    ended = run("token", "list", cwd=tmp_path)
    head, ci, plain = ended.out.splitlines()
    assert head.split() == ["id", "scopes", "created", "name"]
    assert (ci.split()[:2], ci.split()[-1]) == ([first.split("_")[1], "read"], "ci")
    assert "read, write, work, admin" in plain
    listed = run("token", "list", "--json", cwd=tmp_path)
    assert [item["name"] for item in listed.json["items"]] == ["ci", None]
    for text in (first, second):
        assert text[-43:] not in ended.out + ended.err + listed.out


def test_without_tokens_the_list_says_how_to_make_one(tmp_path: Path) -> None:
    scheduler(tmp_path).close()
    ended = run("token", "list", cwd=tmp_path)
    assert (ended.code, ended.out) == (0, "")
    assert "servers accept requests of their own machine only" in ended.err
    assert "`oncue token create` makes a token" in ended.err
    assert not run("token", "list", "--json", cwd=tmp_path).json["closed"]


def test_a_revoked_token_lets_nobody_in(tmp_path: Path) -> None:
    text = run("token", "create", "--name", "ci", cwd=tmp_path).out.strip()
    other = run("token", "create", cwd=tmp_path).out.strip()
    token_id = text.split("_")[1]
    ended = run("token", "revoke", token_id, cwd=tmp_path)
    assert ended.out.startswith(f"Token {token_id} (ci) is revoked")
    assert ended.err == ""
    assert scopes_of(text, tmp_path) is None
    assert scopes_of(other, tmp_path) == frozenset(Scope)


def test_revoking_the_last_token_says_so(tmp_path: Path) -> None:
    run("token", "create", "--name", "ci", cwd=tmp_path)
    ended = run("token", "revoke", "ci", "--json", cwd=tmp_path)
    assert ended.json["name"] == "ci"
    assert "It was the last one: servers refuse all requests until" in ended.err
    listed = run("token", "list", cwd=tmp_path)
    assert (listed.code, listed.out) == (0, "")
    assert "There are no tokens; servers refuse all requests" in listed.err
    assert run("token", "list", "--json", cwd=tmp_path).json == {
        "items": [],
        "next_cursor": None,
        "closed": True,
    }


def test_loopback_is_allowed_again_once_all_tokens_are_revoked(tmp_path: Path) -> None:
    run("token", "create", "--name", "ci", cwd=tmp_path)
    refused = run("token", "allow-loopback", cwd=tmp_path)
    assert (refused.code, refused.out) == (4, "")
    assert "revoke them first" in refused.err
    run("token", "revoke", "ci", cwd=tmp_path)
    ended = run("token", "allow-loopback", cwd=tmp_path)
    assert ended.out == (
        "Servers accept requests of their own machine without a token, within a second.\n"
    )
    again = run("token", "allow-loopback", "--json", cwd=tmp_path)
    assert again.json == {"closed": False, "changed": False}
    assert not run("token", "list", "--json", cwd=tmp_path).json["closed"]


def test_an_unknown_token_is_not_repeated(tmp_path: Path) -> None:
    text = run("token", "create", cwd=tmp_path).out.strip()
    ended = run("token", "revoke", text, cwd=tmp_path)
    assert (ended.code, ended.out) == (3, "")
    assert "there is no token with this id or name; `oncue token list` shows them" in ended.err
    assert text not in ended.err


def test_a_store_that_is_not_there_has_no_tokens_to_look_at(tmp_path: Path) -> None:
    for command in (("list",), ("revoke", "ci")):
        ended = run("token", *command, cwd=tmp_path)
        assert ended.code == 5
        assert "there is no such file" in ended.err
    assert list(tmp_path.iterdir()) == []


def test_neither_a_dump_nor_the_log_holds_a_token(tmp_path: Path) -> None:
    talkative = {"ONCUE_LOG_LEVEL": "DEBUG"}
    made = run("token", "create", "--name", "a-secret-agent", cwd=tmp_path, env=talkative)
    text = made.out.strip()
    with scheduler(tmp_path) as cue:
        cue.schedule(id="a-job")
    dumped = run("dump", cwd=tmp_path, env=talkative)
    assert "a-job" in dumped.out
    for said in (dumped.out, dumped.err, made.err):
        assert text[-43:] not in said
    assert text.split("_")[1] not in dumped.out
    assert "a-secret-agent" not in dumped.out
