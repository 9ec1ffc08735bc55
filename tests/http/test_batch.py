"""`POST /jobs/batch` against a real server."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from oncue.api.app import Service
from oncue.api.incoming import Incoming
from oncue.api.request import Request
from oncue.api.routes.jobs import derived_id
from oncue.scheduler import Scheduler
from tests.http.happenings import pages
from tests.http.server import Reply, Server

NDJSON = "application/x-ndjson"


def post(
    server: Server, body: Any, media_type: str = NDJSON, key: str | None = None, **headers: str
) -> Reply:
    sent = {"Content-Type": media_type, **headers}
    if key is not None:
        sent["Idempotency-Key"] = key
    return server.post("/jobs/batch", body=body, headers=sent)


def lines(*jobs: Any) -> bytes:
    return b"".join(json.dumps(job).encode() + b"\n" for job in jobs)


def stored(server: Server, queue: str) -> list[Any]:
    """Payloads of the queue's jobs, in the order of their due times."""
    return [job["payload"] for job in pages(server, f"/jobs?queue={queue}&limit=500")]


def in_the_end(server: Server, queue: str) -> list[Any]:
    """The same, as soon as there are any."""
    return next(filter(None, (stored(server, queue) for _ in range(5000))))


@pytest.mark.parametrize("media_type", [NDJSON, "application/jsonl", "application/jsonlines"])
def test_lines_become_jobs(server: Server, media_type: str) -> None:
    queue = media_type.partition("/")[2]
    body = lines(*({"queue": queue, "payload": n, "delay": 60 + n} for n in range(3)))
    reply = post(server, body, f"{media_type}; charset=utf-8")
    assert reply.status == 200
    ids = reply.json["ids"]
    counts = {"accepted": 3, "existing": 0, "rejected_count": 0}
    assert reply.json == {**counts, "rejected": [], "ids": ids}
    assert [server.get(f"/jobs/{one}").json["payload"] for one in ids] == [0, 1, 2]


def test_the_elements_of_an_array_become_jobs(server: Server) -> None:
    jobs = [{"queue": "array", "payload": {"text": ']"},{\\'}, "delay": 60}] * 2
    reply = post(server, json.dumps(jobs, indent=1).encode(), "application/json")
    assert reply.json["accepted"] == 2
    assert stored(server, "array") == [{"text": ']"},{\\'}] * 2


def test_bad_lines_are_told_by_number_and_the_others_are_stored(server: Server) -> None:
    body = (
        lines({"queue": "mixed", "payload": 1})
        + b"{nonsense\n"
        + lines({"queue": "no spaces allowed"}, {"colour": "red"}, [1])
        + lines({"queue": "mixed", "payload": "x" * 300_000})
        + b'{"queue": "mixed", "payload": "\xff"}\n'
        + lines({"queue": "mixed", "payload": 8})
    )
    told = post(server, body).json
    assert (told["accepted"], told["rejected_count"]) == (2, 6)
    assert [(bad["line"], bad["status"]) for bad in told["rejected"]] == [
        (2, 400),
        (3, 422),
        (4, 422),
        (5, 422),
        (6, 413),
        (7, 400),
    ]
    assert told["rejected"][1]["detail"].startswith("/queue: ")
    assert [one is None for one in told["ids"]] == [False, *[True] * 6, False]
    assert sorted(stored(server, "mixed")) == [1, 8]


def test_blank_lines_count_as_lines_and_are_no_jobs(server: Server) -> None:
    told = post(server, b'\n{"queue": "blank"}\r\n \r\n\n{"queue": 5}').json
    assert told["accepted"] == 1
    assert [bad["line"] for bad in told["rejected"]] == [5]
    [job] = pages(server, "/jobs?queue=blank")
    assert told["ids"] == [None, job["id"], None, None, None]


@pytest.mark.parametrize("media_type", [NDJSON, "application/json"])
def test_an_empty_body_is_an_empty_batch(server: Server, media_type: str) -> None:
    reply = post(server, b"", media_type)
    assert reply.status == 200
    assert reply.json["accepted"] == reply.json["rejected_count"] == 0
    assert reply.json["ids"] == []


def test_a_line_beyond_all_bounds_is_refused_and_the_next_is_stored(server: Server) -> None:
    long = json.dumps({"queue": "long", "payload": "x" * 5_000_000}).encode()
    for media_type, body in (
        (NDJSON, long + b'\n{"queue": "long"}'),
        ("application/json", b"[" + long + b', {"queue": "long"}]'),
    ):
        told = post(server, body, media_type).json
        assert told["accepted"] == 1
        assert [(bad["line"], bad["status"]) for bad in told["rejected"]] == [(1, 413)]


def test_an_array_that_breaks_off_keeps_what_was_complete(server: Server) -> None:
    told = post(server, b'[{"queue": "cut"}, {"queue": "cu', "application/json").json
    assert told["accepted"] == 1
    assert [(bad["line"], bad["status"]) for bad in told["rejected"]] == [(2, 400)]
    assert "ends in the middle" in told["rejected"][0]["detail"]


def test_what_is_no_array_stores_nothing(server: Server) -> None:
    reply = post(server, b'{"queue": "single"}', "application/json")
    assert reply.status == 400
    assert "x-ndjson" in reply.json["detail"]
    assert stored(server, "single") == []


def test_a_repeated_batch_stores_only_what_is_missing(server: Server) -> None:
    first = lines({"queue": "again", "payload": 1}, {"queue": "again", "priority": 99})
    told = post(server, first, key="monday").json
    assert (told["accepted"], told["existing"], told["rejected_count"]) == (1, 0, 1)
    assert told["ids"] == [derived_id("monday", 1), None]

    mended = lines({"queue": "again", "payload": 1}, {"queue": "again", "priority": 9})
    told = post(server, mended, key="monday").json
    assert (told["accepted"], told["existing"], told["rejected_count"]) == (2, 1, 0)
    assert told["ids"] == [derived_id("monday", 1), derived_id("monday", 2)]
    assert len(stored(server, "again")) == 2


def test_a_key_that_stood_for_another_line_is_refused_for_that_line(server: Server) -> None:
    post(server, lines({"queue": "other", "payload": 1}, {"queue": "other"}), key="tuesday")
    told = post(
        server, lines({"queue": "other", "payload": 2}, {"queue": "other"}), key="tuesday"
    ).json
    assert (told["accepted"], told["existing"]) == (1, 1)
    assert [(bad["line"], bad["status"]) for bad in told["rejected"]] == [(1, 422)]
    assert "Idempotency-Key" in told["rejected"][0]["detail"]


def test_an_id_and_an_idempotency_key_do_not_go_together(server: Server) -> None:
    told = post(server, lines({"id": "mine"}), key="wednesday").json
    assert told["rejected"][0]["status"] == 422
    assert told["rejected"][0]["detail"].startswith("/id: ")


def test_clashes_of_ids_and_keys_are_told_for_their_lines(server: Server) -> None:
    told = post(
        server,
        lines(
            {"queue": "clash", "id": "clash-1", "payload": 1},
            {"queue": "clash", "id": "clash-1", "payload": 1},
            {"queue": "clash", "id": "clash-1", "payload": 2},
            {"queue": "clash", "key": "k"},
            {"queue": "clash", "key": "k"},
        ),
    ).json
    assert (told["accepted"], told["existing"]) == (4, 2)
    assert [(bad["line"], bad["status"]) for bad in told["rejected"]] == [(3, 409)]
    assert told["ids"][:3] == ["clash-1", "clash-1", None]
    assert told["ids"][3] is not None
    assert told["ids"][3] == told["ids"][4]


def test_more_than_ten_thousand_lines_are_answered_without_ids(server: Server) -> None:
    told = post(server, b'{"queue": "many"}\n' * 10_000 + b"[]\n" * 1_500).json
    assert (told["accepted"], told["rejected_count"]) == (10_000, 1_500)
    assert told["ids"] == []
    assert [bad["line"] for bad in told["rejected"]] == list(range(10_001, 11_001))
    told = post(server, b'{"queue": "many"}\n' * 10_000).json
    assert len(set(told["ids"])) == 10_000


def test_a_body_is_taken_in_as_it_arrives(server: Server) -> None:
    """Chunked, and without an end until the jobs of its beginning can be seen."""
    seen: list[Any] = []

    def body() -> Iterator[bytes]:
        yield b'{"queue": "stream", "payload": "%s"}\n' % (b"x" * 1000) * 2000
        seen.extend(in_the_end(server, "stream"))
        yield b'{"queue": "stream"}'

    told = post(server, body()).json
    assert told["accepted"] == 2001
    assert seen


def test_a_client_that_leaves_has_stored_what_was_complete(server: Server) -> None:
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port)) as client:
        client.sendall(
            b"POST /jobs/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson"
            b"\r\nContent-Length: 1000\r\n\r\n"
            b'{"queue": "left", "payload": 1}\n{"queue": "left", "payload": 2}\n{"queue": "left"'
        )
    assert sorted(in_the_end(server, "left")) == [1, 2]
    assert post(server, lines({"queue": "left-2"})).json["accepted"] == 1


@pytest.mark.parametrize(
    ("headers", "media_type"),
    [({}, "text/plain"), ({}, ""), ({"Content-Encoding": "br"}, NDJSON)],
)
def test_what_cannot_be_read_is_refused_by_its_type(
    server: Server, headers: dict[str, str], media_type: str
) -> None:
    reply = post(server, b"{}\n", media_type, **headers)
    assert reply.status == 415


def test_batch_is_a_word_and_no_job(server: Server) -> None:
    reply = server.get("/jobs/batch")
    assert reply.status == 405
    assert reply.headers["allow"] == "POST"


def test_trouble_with_the_store_says_how_much_is_stored(tmp_path: Path) -> None:
    cue = Scheduler(f"sqlite:///{tmp_path / 'jobs.db'}")
    service = Service(cue, open_to_all=True)
    line = b'{"payload": "%s"}\n' % (b"x" * 1000)
    turns = 0

    async def receive() -> MutableMapping[str, Any]:
        nonlocal turns
        turns += 1
        if turns == 2:
            cue.close()
        return {"type": "http.request", "body": line * 1000, "more_body": turns < 2}

    headers = {b"host": b"localhost", b"content-type": NDJSON.encode()}
    answer = asyncio.run(service.respond(Request("POST", b"/jobs/batch", b"", headers, receive)))
    service.close()

    assert answer is not None
    problem = json.loads(answer.body)
    assert (answer.status, problem["accepted"]) == (503, 1000)
    assert "1,000 jobs of this batch are stored" in problem["detail"]
    with Scheduler(f"sqlite:///{tmp_path / 'jobs.db'}") as again:
        assert len(list(again.jobs())) == 1000


class Idle:
    """The connection of a body that is there."""

    def await_body(self) -> None: ...

    def hold_body(self) -> None: ...


def test_a_small_body_that_stands_for_many_jobs_ends_when_its_client_leaves(tmp_path: Path) -> None:
    line = b'{"payload": "%s"}\n' % (b"x" * 1000)
    body = Incoming(Idle())
    body.add(gzip.compress(line * 5000))
    body.finish()
    body.leave()
    headers = {
        b"host": b"localhost",
        b"content-type": NDJSON.encode(),
        b"content-encoding": b"gzip",
    }
    request = Request("POST", b"/jobs/batch", b"", headers, body.receive, body)
    with Scheduler(f"sqlite:///{tmp_path / 'jobs.db'}") as cue:
        service = Service(cue, open_to_all=True)
        assert asyncio.run(service.respond(request)) is None
        service.close()
        assert 0 < len(list(cue.jobs())) < 5000


def test_many_empty_lines_are_counted(server: Server) -> None:
    report = post(server, b"\n" * 2500 + b"{}\n" + b"\n" * 3000 + b"nonsense\n").json
    assert (report["accepted"], report["rejected_count"]) == (1, 1)
    assert report["rejected"][0]["line"] == 5502
    assert [line for line, one in enumerate(report["ids"], 1) if one is not None] == [2501]
