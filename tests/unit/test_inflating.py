"""Compressed bodies, in pieces."""

from __future__ import annotations

import gzip
import random

import pytest

from oncue.api.inflating import PIECE, Inflating, inflating
from oncue.api.problems import HttpProblem

LIMIT = 8 * PIECE
NOISE = random.Random(7).randbytes(PIECE + 1)


@pytest.mark.parametrize(
    "text", [b"", b"a", b"a" * PIECE, b"ab" * 2 * PIECE, NOISE, b"a" * LIMIT], ids=len
)
@pytest.mark.parametrize("step", [1000, 100_000])
def test_a_body_is_inflated_however_it_arrives(text: bytes, step: int) -> None:
    sent = gzip.compress(text)
    body = Inflating(LIMIT)
    pieces = [
        piece for at in range(0, len(sent), step) for piece in body.feed(sent[at : at + step])
    ]
    body.end()
    assert b"".join(pieces) == text
    assert max(map(len, pieces), default=0) < 2 * PIECE


def test_a_body_may_have_many_members() -> None:
    sent = b"".join(map(gzip.compress, [b"one ", b"", b"two"]))
    assert Inflating(LIMIT).whole(sent) == b"one two"
    many = gzip.compress(b"") * 50_000
    assert Inflating(LIMIT).whole(many) == b""


def test_no_more_is_inflated_than_is_allowed() -> None:
    sent = gzip.compress(b"\0" * (LIMIT + 1))
    inflated = 0
    with pytest.raises(HttpProblem) as refused:
        for piece in Inflating(LIMIT).feed(sent):
            inflated += len(piece)
    assert refused.value.fields.status == 413
    assert inflated <= LIMIT


@pytest.mark.parametrize(
    "sent",
    [b"{}", gzip.compress(b"text")[:-1], gzip.compress(b"text") + b"\0", b"\x1f\x8b"],
    ids=["plain", "cut short", "followed", "begun"],
)
def test_what_is_not_gzip_is_refused(sent: bytes) -> None:
    with pytest.raises(HttpProblem) as refused:
        Inflating(LIMIT).whole(sent)
    assert refused.value.fields.status == 400


def test_a_body_without_an_encoding_is_plain() -> None:
    assert inflating(None, LIMIT) is None
    assert inflating(" Identity ", LIMIT) is None
    assert inflating("GZIP", LIMIT) is not None


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip", "x" * 1000])
def test_other_encodings_are_refused(encoding: str) -> None:
    with pytest.raises(HttpProblem) as refused:
        inflating(encoding, LIMIT)
    assert refused.value.fields.status == 415
    assert refused.value.headers == {"accept-encoding": "gzip, identity"}
