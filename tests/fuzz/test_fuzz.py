"""The short form of `make fuzz`: a few inputs of each part, always the same, and all that are kept
because something went wrong with them once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.__main__ import Last
from tests.fuzz.parts import PARTS, corpus, fire
from tests.fuzz.target import check, read_answers

EXAMPLES = 150


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_nothing_breaks_on_hostile_input(tmp_path: Path, part: str) -> None:
    with PARTS[part].opened(tmp_path) as check:
        for kept in corpus(part):
            check(kept.read_bytes())
        fire(part, 1, EXAMPLES, check)


@pytest.mark.parametrize(
    "received",
    [
        b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nno",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}and more",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2",
        b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
        b"nonsense",
    ],
)
def test_a_wrong_answer_is_noticed(received: bytes) -> None:
    with pytest.raises(AssertionError):
        for answer in read_answers(received, was_reset=False):
            check(answer)


def test_right_answers_are_read_one_after_the_other() -> None:
    problem = b'{"type":"/problems/malformed","status":400,"detail":"no"}'
    received = (
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"  # to a HEAD
        b"HTTP/1.1 204 No Content\r\n\r\n"
        b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\n"
        b"content-length: %d\r\n\r\n%b" % (len(problem), problem)
    )
    answers = list(read_answers(received, was_reset=False))
    assert [answer.status for answer in answers] == [200, 200, 204, 400]
    for answer in answers:
        check(answer)


@pytest.mark.parametrize("part", PARTS)
def test_the_smallest_input_that_fails_is_found(part: str) -> None:
    last = Last(refuse_any)
    with pytest.raises(ZeroDivisionError):
        fire(part, 1, 50, last)
    assert last.failed


def refuse_any(data: bytes) -> None:
    if data:
        raise ZeroDivisionError
