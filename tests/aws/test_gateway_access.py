"""Who may call the API function: bearers of access tokens, or everyone whom a gateway admits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncue import Scheduler
from oncue.aws import sandbox
from oncue.clock import FakeClock
from oncue.core.access import Scope
from oncue.core.errors import InvalidInput
from oncue.stores.memory import MemoryStore
from oncue.usecases.tokens import Access
from tests.aws.gateway import Gateway, deployed

GATEWAY = Gateway()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def access(clock: FakeClock) -> Iterator[Access]:
    """The tokens of the function's store, changed from outside of it."""
    store = MemoryStore(clock)
    with deployed(scopes=None):
        sandbox.adopt("memory:", Scheduler(store, clock=clock), {})
        yield Access(store, clock)


def bearer(text: str) -> list[tuple[str, str]]:
    return [("Authorization", f"Bearer {text}")]


# -- access tokens ---------------------------------------------------------------------------------


def test_without_a_token_the_function_does_not_start_and_says_what_to_do(access: Access) -> None:
    for _ in range(2):
        with pytest.raises(InvalidInput, match="oncue token create") as refused:
            GATEWAY.ask("GET", "/livez")
        assert "set ONCUE_GATEWAY_SCOPES" in str(refused.value)
    _, text = access.create()
    assert GATEWAY.ask("GET", "/jobs", headers=bearer(text)).status == 200


def test_the_token_is_asked_for(access: Access) -> None:
    _, text = access.create(scopes=["read"])
    assert GATEWAY.ask("GET", "/livez").status == 200
    for headers in ([], bearer("oncue_x"), [("Authorization", "Basic YTpi")]):
        answer = GATEWAY.ask("GET", "/jobs", headers=headers)
        assert (answer.status, answer.json["type"]) == (401, "/problems/unauthenticated")
        assert answer.headers["www-authenticate"] == 'Bearer realm="oncue"'
    assert GATEWAY.ask("GET", "/jobs", headers=bearer(text)).status == 200
    refused = GATEWAY.ask("POST", "/jobs", {}, headers=bearer(text))
    assert (refused.status, refused.json["type"]) == (403, "/problems/forbidden")


def test_a_token_works_as_soon_as_it_was_made(access: Access) -> None:
    access.create()
    assert GATEWAY.ask("GET", "/jobs").status == 401
    _, text = access.create()
    assert GATEWAY.ask("GET", "/jobs", headers=bearer(text)).status == 200


def test_a_revoked_token_is_refused_after_a_second(access: Access, clock: FakeClock) -> None:
    access.create()
    token, text = access.create()
    assert GATEWAY.ask("GET", "/jobs", headers=bearer(text)).status == 200
    access.revoke(token.id)
    clock.advance(1.0)
    assert GATEWAY.ask("GET", "/jobs", headers=bearer(text)).status == 401


def test_a_token_that_was_revoked_while_the_sandbox_stood_still_is_refused(
    access: Access, clock: FakeClock
) -> None:
    token, text = access.create()
    assert GATEWAY.ask("GET", "/jobs", headers=bearer(text)).status == 200
    access.revoke(token.id)
    clock.set(clock.now() + 60_000)  # the monotonic clock stood still, too
    assert GATEWAY.ask("GET", "/jobs", headers=bearer(text)).status == 401


def test_nobody_is_let_in_after_the_last_token_was_revoked(
    access: Access, clock: FakeClock
) -> None:
    token, text = access.create()
    assert GATEWAY.ask("GET", "/jobs", headers=bearer(text)).status == 200
    access.revoke(token.id)
    clock.advance(1.0)
    local = [("Host", "localhost")]
    assert GATEWAY.ask("GET", "/jobs", headers=local).status == 401


def test_the_token_of_a_claim_is_all_that_its_reports_need(access: Access) -> None:
    _, text = access.create()
    GATEWAY.ask("POST", "/jobs", {"queue": "q"}, headers=bearer(text))
    claimed = GATEWAY.ask("POST", "/queues/q/claim", {}, headers=bearer(text))
    [job] = claimed.json["items"]
    done = GATEWAY.ask("POST", f"/jobs/{job['id']}/complete", {"token": job["token"]})
    assert (done.status, done.json["state"]) == (200, "succeeded")


# -- scopes of a gateway ---------------------------------------------------------------------------


def test_callers_of_a_gateway_have_its_scopes_and_no_more() -> None:
    with deployed(scopes="read, write"):
        assert GATEWAY.ask("POST", "/jobs", {"queue": "q"}).status == 201
        assert GATEWAY.ask("GET", "/jobs").status == 200
        assert GATEWAY.ask("GET", "/access").json == {"scopes": ["read", "write"]}
        for method, path in (("POST", "/queues/q/claim"), ("PUT", "/queues/q")):
            refused = GATEWAY.ask(method, path, {})
            assert (refused.status, refused.json["type"]) == (403, "/problems/forbidden")
            assert "ONCUE_GATEWAY_SCOPES" in refused.json["detail"]


def test_a_token_gives_callers_of_a_gateway_nothing(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'jobs.db'}"
    with deployed(store, scopes="read"):
        cue = sandbox.scheduler()
        _, text = Access(cue.store, cue.clock).create()
        assert GATEWAY.ask("POST", "/jobs", {}, headers=bearer(text)).status == 403
        jwt = [("Authorization", "Bearer eyJhbGciOi.J9.x")]
        assert GATEWAY.ask("GET", "/jobs", headers=jwt).status == 200


def test_admin_includes_the_other_scopes() -> None:
    with deployed(scopes="admin"):
        assert GATEWAY.ask("GET", "/access").json == {"scopes": [str(one) for one in Scope]}


@pytest.mark.parametrize(
    ("scopes", "said"),
    [
        ("read,wrote", "ONCUE_GATEWAY_SCOPES: 'wrote' is not a scope; choose from read, write"),
        ("read;write", "ONCUE_GATEWAY_SCOPES: 'read;write' is not a scope"),
        ("read,", "ONCUE_GATEWAY_SCOPES: '' is not a scope"),
        ("", "ONCUE_GATEWAY_SCOPES: must be text, and not empty"),
    ],
)
def test_wrong_scopes_are_refused(scopes: str, said: str) -> None:
    with deployed(scopes=scopes), pytest.raises(InvalidInput, match=said):
        GATEWAY.ask("GET", "/livez")


def test_a_misspelt_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCUE_GATEWAY_SCOPE", "read")
    monkeypatch.setenv("ONCUE_SINK_MAIL", "log:")
    with (
        deployed(scopes=None),
        pytest.raises(InvalidInput, match="did you mean ONCUE_GATEWAY_SCOPES"),
    ):
        GATEWAY.ask("GET", "/livez")


def test_without_a_store_the_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with deployed():
        monkeypatch.delenv("ONCUE_STORE")
        with pytest.raises(InvalidInput, match="ONCUE_STORE"):
            GATEWAY.ask("GET", "/livez")
