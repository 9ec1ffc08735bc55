"""Requests as bytes: what clients may send besides what they mean."""

from __future__ import annotations

import json
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.http.errand import count
from tests.http.server import Server, bodies

OFFER = (
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    b"HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n"
)


def post(queue: str, *headers: bytes) -> tuple[bytes, bytes]:
    """The head and the body of a request that creates a job."""
    body = json.dumps({"queue": queue, "payload": "x" * 100_000}).encode()
    told = b"Host: localhost\r\nContent-Type: application/json\r\n" + b"".join(headers)
    return b"POST /jobs HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n" % (told, len(body)), body


def answers(server: Server, parts: list[bytes], number: int) -> list[Any]:
    """The bodies of so many answers on one connection, to what is sent part by part."""
    place = urlsplit(server.url)
    with socket.create_connection((place.hostname, place.port), 30) as connection:
        for part in parts:
            connection.sendall(part)
        return bodies(connection, number)


@pytest.mark.parametrize("cut", [0, 10], ids=["in one part", "in two parts"])
def test_an_offer_of_http_2_is_declined_and_the_body_is_read(server: Server, cut: int) -> None:
    head, body = post("offered", OFFER)
    [job] = answers(server, [head + body[:cut], body[cut:]], 1)
    assert (job["queue"], len(job["payload"])) == ("offered", 100_000)


def test_what_follows_an_offer_is_a_body_and_no_other_request(server: Server) -> None:
    before = count(server)
    hidden = b"".join(post("hidden"))
    head = b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    outer = head + OFFER + b"Content-Length: %d\r\n\r\n" % len(hidden)
    [problem, alive] = answers(
        server, [outer, hidden, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"], 2
    )
    assert problem["status"] == 400
    assert alive["status"] == "alive"
    assert count(server) == before


def test_offers_in_a_row_are_all_declined(server: Server) -> None:
    one = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + OFFER + b"\r\n"
    told = answers(server, [one * 50], 50)
    assert {answer["status"] for answer in told} == {"alive"}


@pytest.mark.parametrize("trailer", [b"Content-Type: text/plain", b"Idempotency-Key: k"], ids=str)
def test_trailers_of_a_body_are_ignored(server: Server, trailer: bytes) -> None:
    """They come when the head was judged already."""
    head = (
        b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Idempotency-Key: trailed\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    [job] = answers(server, [head + b"2\r\n{}\r\n0\r\n\r\n"], 1)
    [again] = answers(server, [head + b"2\r\n{}\r\n0\r\n" + trailer + b"\r\n\r\n"], 1)
    assert again == job


def test_an_encoded_slash_belongs_to_its_segment(server: Server) -> None:
    assert server.post("/jobs%2Fbatch").status == 404
    assert server.get("/%6Aobs").status == 200


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (
            b"POST /jobs HTTP/1.1\r\nContent-Length: abc\r\n\r\n",
            "Invalid character in Content-Length",
        ),
        (b"POST / HTTP/1.1\r\nContent Type: a\r\n\r\n", "Invalid header token"),
        (b"hello\r\n\r\n", "Invalid method encountered"),
        (b"GET http://[ HTTP/1.1\r\n\r\n", ""),
    ],
    ids=lambda one: one[:8],
)
def test_what_is_no_request_is_refused_with_the_reason(
    server: Server, head: bytes, reason: str
) -> None:
    [problem] = answers(server, [head], 1)
    assert problem["status"] == 400
    why = f": {reason}" if reason else ""
    assert problem["detail"] == f"This is not a request that HTTP/1.1 knows{why}."
