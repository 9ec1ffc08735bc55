"""Bodies with `Content-Encoding: gzip`, honest ones and bombs."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from oncue.api.request import BODY_LIMIT
from oncue.api.routes.batch import BLOCK, INFLATED_LIMIT
from tests.http.errand import count
from tests.http.server import Reply, Server
from tests.http.test_quoting import peak_bytes

NDJSON = "application/x-ndjson"
JSON = "application/json"


def post(
    server: Server, path: str, body: bytes, media_type: str = JSON, encoding: str = "gzip"
) -> Reply:
    headers = {"Content-Type": media_type, "Content-Encoding": encoding}
    return server.post(path, body=body, headers=headers)


MEMBER = gzip.compress(b"\0" * 16 * BODY_LIMIT)


def bomb(size: int) -> bytes:
    """At least so many zeros."""
    return MEMBER * (1 + size // (16 * BODY_LIMIT))


def test_a_job_may_be_compressed(server: Server) -> None:
    reply = post(server, "/jobs", gzip.compress(b'{"queue": "packed", "payload": [1, 2]}'))
    assert (reply.status, reply.json["payload"]) == (201, [1, 2])


@pytest.mark.parametrize("media_type", [NDJSON, JSON])
def test_a_batch_may_be_compressed_and_is_stored_in_the_order_of_its_lines(
    server: Server, media_type: str
) -> None:
    jobs = [b'{"queue": "packed", "payload": "%s", "delay": 60}' % (b"%08d" % n) for n in range(5)]
    jobs[1:1] = [b"", b'{"priority": 10}'] if media_type == NDJSON else [b'{"priority": 10}']
    text = b"\n".join(jobs) if media_type == NDJSON else b"[" + b",".join(jobs) + b"]"
    body = gzip.compress(b"\xef\xbb\xbf" + text[:40]) + gzip.compress(text[40:])
    answer: Any = post(server, "/jobs/batch", body, media_type).json
    assert (answer["accepted"], answer["rejected_count"]) == (5, 1)
    kept = [line for line, job in enumerate(jobs) if b"packed" in job]
    assert [line for line, job_id in enumerate(answer["ids"]) if job_id is not None] == kept
    payloads = [server.get(f"/jobs/{answer['ids'][line]}").json["payload"] for line in kept]
    assert payloads == [f"{n:08}" for n in range(5)]


def test_a_large_batch_is_inflated_piece_by_piece(server: Server) -> None:
    line = b'{"queue": "piled", "delay": 60, "payload": "%s"}\n' % (b"x" * 1000)
    number = 3 * BLOCK // len(line)
    reply = post(server, "/jobs/batch", gzip.compress(line * number), NDJSON)
    assert reply.json["accepted"] == number


@pytest.mark.parametrize(
    ("path", "media_type", "size"),
    [
        ("/jobs", JSON, BODY_LIMIT),
        ("/jobs", JSON, 1000 * BODY_LIMIT),
        ("/jobs/batch", NDJSON, INFLATED_LIMIT),
        ("/tasks", JSON, 1000 * BODY_LIMIT),
    ],
)
def test_a_bomb_is_a_413_and_does_not_go_off(
    server: Server, path: str, media_type: str, size: int
) -> None:
    before, memory = count(server), peak_bytes(server)
    reply = post(server, path, bomb(size), media_type)
    assert reply.status == 413
    assert "inflated" in reply.json["detail"]
    assert count(server) == before
    assert peak_bytes(server) - memory < 16 * BODY_LIMIT


@pytest.mark.parametrize("path", ["/jobs", "/jobs/batch"])
def test_what_is_not_gzip_is_a_400(server: Server, path: str) -> None:
    for body in (b"{}", gzip.compress(b'{"queue": "cut"}')[:-3]):
        assert post(server, path, body).status == 400
    assert server.get("/jobs?queue=cut").json["items"] == []


@pytest.mark.parametrize("path", ["/jobs", "/jobs/batch", "/tasks", "/events"])
def test_another_encoding_is_a_415_that_names_those_it_takes(server: Server, path: str) -> None:
    for encoding in ("br", "deflate", "gzip, gzip"):
        reply = post(server, path, b"{}", encoding=encoding)
        assert reply.status == 415
        assert reply.headers["accept-encoding"] == "gzip, identity"
    assert post(server, path, b"", encoding="br").status != 415
