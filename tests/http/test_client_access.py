"""A client and its access token, at a server that wants to see one."""

from __future__ import annotations

import threading

import pytest

from oncue import AccessDenied, Client, Scheduler, State
from oncue.usecases.tokens import Access
from oncue.worker.worker import Worker
from tests.http.server import Server


@pytest.fixture(scope="module")
def tokens(server: Server) -> dict[str, str]:
    with Scheduler(server.store) as cue:
        access = Access(cue.store, cue.clock)
        return {
            "reader": access.create("reader", ["read"])[1],
            "worker": access.create("worker", ["work"])[1],
            "all": access.create("all")[1],
        }


@pytest.fixture(autouse=True)
def no_token_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONCUE_TOKEN", raising=False)


def test_access_is_granted_by_argument_or_environment(
    server: Server, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(server.url, tokens["all"]) as client:
        job = client.schedule(queue="a", delay=60)
    monkeypatch.setenv("ONCUE_TOKEN", tokens["all"])
    with Client(server.url) as client:
        assert client.job(job.id) == job


@pytest.mark.parametrize("kind", ["none", "forged", "nonsense"])
def test_without_a_known_token_access_is_denied(
    server: Server, tokens: dict[str, str], kind: str
) -> None:
    forged = tokens["all"][:-4] + "AAAA"
    token = {"none": None, "forged": forged, "nonsense": "nonsense"}[kind]
    with Client(server.url, token) as client, pytest.raises(AccessDenied) as caught:
        client.schedule(queue="a")
    assert "oncue token create" in str(caught.value)
    assert forged not in str(caught.value)


def test_a_scope_that_is_lacking_is_named(server: Server, tokens: dict[str, str]) -> None:
    with Client(server.url, tokens["reader"]) as client:
        assert list(client.jobs(queue="nothing-here")) == []
        with pytest.raises(AccessDenied, match="lacks the scope 'write'"):
            client.schedule(queue="a")


def test_the_token_of_a_claim_is_enough_to_report_on_it(
    server: Server, tokens: dict[str, str]
) -> None:
    with Client(server.url, tokens["all"]) as client:
        job = client.schedule(queue="b")
        [claimed] = client.claim("b", "w")
        with Client(server.url) as stranger:
            stranger.complete(job.id, claimed.token, "done")
        assert client.job(job.id).result == "done"


def test_a_token_that_may_work_is_all_that_a_worker_needs(
    server: Server, tokens: dict[str, str]
) -> None:
    with Client(server.url, tokens["all"]) as boss, Client(server.url, tokens["worker"]) as client:
        job = boss.schedule(queue="c")
        done = threading.Event()
        client.handler("c")(lambda job: job.step("s", done.set))
        worker = Worker(client)
        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()
        assert done.wait(30)
        worker.stop()
        thread.join(30)
        assert boss.job(job.id).state is State.SUCCEEDED


@pytest.mark.parametrize("token", ["reader", "worker"])
def test_a_worker_to_whom_access_is_denied_ends_and_says_why(
    server: Server, tokens: dict[str, str], token: str
) -> None:
    """Until nothing is left is only known to those who may look."""
    with Client(server.url, tokens[token]) as client:
        client.handler("d")(lambda job: None)
        with pytest.raises(AccessDenied, match="lacks the scope"):
            client.work(until_empty=True)
