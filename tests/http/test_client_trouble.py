"""A client whose server loses answers, is away, turns it down, or is not oncue at all."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oncue import (
    AccessDenied,
    Client,
    NotFound,
    OncueError,
    Scheduler,
    ServerError,
    ServerUnavailable,
    ServerUnusable,
    State,
)
from oncue.usecases.claims import Completion
from tests.http.meddler import AWAY, LOSE, SPOIL, Meddler, Said, meddling
from tests.http.patience import until
from tests.http.server import Server, running_server

BUSY = Said(503, headers={"retry-after": "0"})
BROKEN = Said(500)
SLOW = Said(408, b'{"type": "/problems/request-timeout"}', "application/problem+json")
UNUSUAL = Said(524)  # one of those that only proxies have
TROUBLES = (LOSE, SPOIL, BUSY, BROKEN, SLOW, UNUSUAL)


@pytest.fixture
def proxy(server: Server) -> Iterator[Meddler]:
    with meddling(server.url) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: Meddler) -> Iterator[Client]:
    with Client(proxy.url) as client:
        yield client


# -- lost answers ------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_job_is_stored_once_however_often_it_has_to_be_sent(
    client: Client, proxy: Meddler, cue: Scheduler, trouble: Any
) -> None:
    queue = f"once-{TROUBLES.index(trouble)}"
    proxy.plan.extend([trouble] * 3)
    job = client.schedule({"n": 1}, queue=queue, delay=60)
    [stored] = cue.jobs(queue=queue)
    assert stored._replace(epoch=job.epoch) == job
    assert len(proxy.seen) == 4


def test_so_are_many_and_those_of_the_first_try_are_not_called_existing(
    client: Client, proxy: Meddler, cue: Scheduler
) -> None:
    proxy.plan.extend([LOSE, LOSE])
    tally = client.schedule_many(({"payload": n} for n in range(100)), queue="once-many")
    assert (tally.accepted, tally.existing, len(set(tally.ids))) == (100, 0, 100)
    assert cue.stats("once-many").counts[State.SCHEDULED] == 100


@pytest.mark.parametrize("trouble", [LOSE, SPOIL])
def test_a_cancel_whose_answer_was_lost_is_no_failure(
    client: Client, proxy: Meddler, trouble: str
) -> None:
    job = client.schedule(queue="lost-cancel", delay=60)
    proxy.plan.append(trouble)
    assert client.cancel(job.id).state is State.CANCELLED
    proxy.plan.append(trouble)
    assert client.retry(job.id).state is State.SCHEDULED
    proxy.plan.append(trouble)
    assert client.run(job.id).state is State.SCHEDULED


@pytest.mark.parametrize("trouble", [BUSY, BROKEN, SLOW])
def test_a_change_that_was_not_made_is_asked_for_again(
    client: Client, proxy: Meddler, trouble: Said
) -> None:
    job = client.schedule(queue="broken-cancel", delay=60)
    proxy.plan.append(trouble)
    assert client.cancel(job.id).state is State.CANCELLED


def test_reports_are_repeated_until_they_are_answered(client: Client, proxy: Meddler) -> None:
    job = client.schedule(queue="lost-reports")
    [claimed] = client.claim("lost-reports", "w")
    for report in (
        lambda: client.start(job.id, claimed.token),
        lambda: client.heartbeat(job.id, claimed.token, percent=5),
        lambda: client.operation(job.id, claimed.token, "s", "succeeded", result=1),
        lambda: client.complete(job.id, claimed.token, "done"),
    ):
        proxy.plan.append(LOSE)
        report()
    assert client.job(job.id).result == "done"
    assert client.history(job.id).diagnostics == ()


@pytest.mark.parametrize("trouble", [LOSE, BROKEN])
def test_a_claim_is_not_repeated_when_its_answer_was_lost(
    client: Client, proxy: Meddler, trouble: Any
) -> None:
    client.schedule_many([{}, {}], queue="lost-claim")
    before = len(proxy.seen)
    proxy.plan.append(trouble)
    with pytest.raises(ServerUnavailable):
        client.claim("lost-claim", "w")
    assert proxy.seen[before:] == [("POST", "/claim")]


def test_the_error_then_says_what_becomes_of_the_jobs(client: Client, proxy: Meddler) -> None:
    proxy.plan.append(LOSE)
    with pytest.raises(ServerUnavailable, match="taken back when their lease ends"):
        client.claim("lost-claim", "w")


def test_a_claim_that_was_turned_away_is_repeated(client: Client, proxy: Meddler) -> None:
    client.schedule(queue="busy-claim")
    proxy.plan.extend([BUSY, BUSY])
    assert len(client.claim("busy-claim", "w")) == 1


# -- no server, or another one -----------------------------------------------------------------


def test_a_server_that_stays_broken_is_not_asked_for_ever(proxy: Meddler) -> None:
    proxy.always = BROKEN
    with Client(proxy.url, timeout_seconds=2.0) as client, pytest.raises(ServerUnavailable):
        client.queues()
    assert len(proxy.seen) > 1


def test_a_server_that_asks_for_no_pause_is_given_one(proxy: Meddler) -> None:
    proxy.always = BUSY
    with Client(proxy.url, timeout_seconds=2.0) as client, pytest.raises(ServerUnavailable):
        client.queues()
    assert 1 < len(proxy.seen) < 20


def test_whoever_waits_is_told_at_once_and_at_the_end_how_long_it_was_tried(
    proxy: Meddler,
) -> None:
    proxy.always = AWAY
    said: list[str] = []
    says = "the server says: The store cannot answer now; nothing was lost."
    with Client(proxy.url, timeout_seconds=0.5) as client:
        client.connection.on_trouble = said.append
        with pytest.raises(ServerUnavailable) as raised:
            client.queues()
    assert len(proxy.seen) > 2
    [text] = said
    assert re.fullmatch(rf"{says} Trying again for \d+ ms\.", text)
    doctor = f"'oncue doctor --url {proxy.url}' looks for what is wrong."
    assert re.fullmatch(rf"{says} It was tried for \d+ ms\. {doctor}", str(raised.value))


def test_a_wait_longer_than_the_patience_is_not_begun(client: Client, proxy: Meddler) -> None:
    proxy.always = Said(429, headers={"retry-after": "3600"})
    with pytest.raises(ServerUnavailable):
        client.queues()
    assert len(proxy.seen) == 1


def test_a_store_that_must_be_mended_is_told_at_once(tmp_path: Path) -> None:
    with running_server(tmp_path) as own, meddling(own.url) as proxy, Client(proxy.url) as client:
        client.schedule(queue="mail", delay=60)
        (tmp_path / "jobs.db").unlink()
        until(lambda: own.get("/jobs").status == 503)
        assert own.get("/jobs").json["lasting"] is True
        assert "retry-after" in own.get("/jobs").headers
        calls: list[Callable[[], Any]] = [
            client.queues,
            lambda: client.schedule(queue="mail"),
            lambda: client.schedule_many([{"payload": 1}], queue="mail"),
        ]
        for call in calls:
            proxy.seen.clear()
            with pytest.raises(ServerUnavailable, match="The log of the server|cannot answer now"):
                call()
            assert len(proxy.seen) == 1


def test_nobody_listening_is_told_with_the_next_step() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        told = pytest.raises(ServerUnavailable, match=f"{url} cannot be reached. Start it with")
        with Client(url, timeout_seconds=0.2) as client, told:
            client.schedule()


def test_a_server_that_does_not_answer_in_time_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        told = pytest.raises(ServerUnavailable, match="did not answer in time")
        with Client(url, timeout_seconds=0.2) as client, told:
            client.queues()


def test_https_to_a_plain_server_is_told_as_such(server: Server) -> None:
    url = server.url.replace("http:", "https:")
    with Client(url) as client, pytest.raises(ServerUnusable, match="certificate"):
        client.queues()


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (Said(200, b"<html>"), ServerUnusable, "answered with text/html"),
        (Said(200, b"[]", "application/json"), ServerUnusable, "JSON of another shape"),
        (Said(200, b'{"items"', "application/json"), ServerUnusable, "JSON of another shape"),
        (Said(200, b"\xff", "application/json"), ServerUnusable, "JSON of another shape"),
        (Said(404, b"<html>"), ServerUnusable, "status 404"),
        (Said(400, b"{", "application/problem+json"), ServerUnusable, "status 400"),
        (
            Said(302, headers={"location": "https://elsewhere/"}),
            ServerUnusable,
            "redirects to 'https://elsewhere/'",
        ),
        (Said(403, b"<html>"), AccessDenied, "refuses access"),
        (Said(502, b"<html>"), ServerUnavailable, "status 502"),
        (
            Said(404, b'{"type": "/problems/no-such-route"}', "application/problem+json"),
            ServerUnusable,
            "does not offer this",
        ),
    ],
)
def test_whatever_else_answers_there_is_told_clearly(
    proxy: Meddler, answer: Said, error: type[OncueError], text: str
) -> None:
    proxy.always = answer
    with Client(proxy.url, timeout_seconds=0.2) as client:
        calls: list[Callable[[], Any]] = [client.queues, lambda: list(client.jobs())]
        for call in calls:
            with pytest.raises(error, match=text):
                call()


def test_reports_that_are_not_all_answered_are_told_clearly(client: Client, proxy: Meddler) -> None:
    proxy.always = Said(200, b'{"items": []}', "application/json")
    with pytest.raises(ServerUnusable, match="more or fewer jobs than it was told of"):
        client.complete_all([Completion("7", "token")])


def test_a_closed_client_does_not_go_on_trying(proxy: Meddler) -> None:
    client = Client(proxy.url)
    client.close()
    with pytest.raises(ServerError, match="this client is closed"):
        client.queues()
    assert proxy.seen == []
    client.close()


def test_a_server_below_a_path_is_found(proxy: Meddler) -> None:
    proxy.always = Said(200, b'{"reason": "r", "sentence": "s"}', "application/json")
    with Client(f"{proxy.url}/below/oncue/") as client:
        assert client.explain("7").reason == "r"
    assert proxy.seen == [("GET", "/below/oncue/jobs/7/explain")]


def test_a_queue_is_deleted_once_when_the_answer_was_lost(client: Client, proxy: Meddler) -> None:
    client.set_queue("lost-queue")
    before = len(proxy.seen)
    proxy.plan.append(LOSE)
    client.delete_queue("lost-queue")
    assert proxy.seen[before:] == [("DELETE", "/queues/lost-queue")] * 2
    with pytest.raises(NotFound):
        client.delete_queue("lost-queue")
