from __future__ import annotations

import pytest

from oncue.api.heads import Head
from oncue.api.problems import HttpProblem

HOST = (b"host", b"localhost")


def fault(headers: list[tuple[bytes, bytes]]) -> HttpProblem | None:
    head = Head()
    for name, value in headers:
        head.add(name, value)
    return head.fault


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [HOST],
        [HOST, (b"content-length", b"2")],
        [HOST, (b"transfer-encoding", b"chunked")],
        [HOST, (b"transfer-encoding", b" Chunked ")],
        [HOST, (b"accept", b"a"), (b"accept", b"b")],
    ],
)
def test_a_head_that_can_be_read_in_one_way_is_accepted(headers: list[tuple[bytes, bytes]]) -> None:
    assert fault(headers) is None


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ([HOST, HOST], "Host"),
        ([HOST, (b"host", b"evil.example")], "Host"),
        ([HOST, (b"transfer-encoding", b"gzip, chunked")], "Transfer-Encoding"),
        ([HOST, (b"transfer-encoding", b"chunked, gzip")], "Transfer-Encoding"),
        ([HOST, (b"transfer-encoding", b"chunked, chunked")], "Transfer-Encoding"),
        ([HOST, *[(b"transfer-encoding", b"chunked")] * 2], "Transfer-Encoding"),
        ([HOST, (b"transfer-encoding", b"identity")], "Transfer-Encoding"),
        ([HOST, (b"transfer-encoding", b"")], "Transfer-Encoding"),
        ([HOST, (b"transfer-encoding", b"\x0bchunked")], "Transfer-Encoding"),
        ([HOST, (b"transfer-encoding", b"chunked"), (b"content-length", b"2")], "Content-Length"),
    ],
)
def test_a_head_that_can_be_read_in_two_ways_is_refused(
    headers: list[tuple[bytes, bytes]], named: str
) -> None:
    problem = fault(headers)
    assert problem is not None
    assert problem.fields.status == 400
    assert named in problem.fields.detail
