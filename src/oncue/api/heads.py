"""Which heads of requests are refused: those that two programs could read in two ways."""

from __future__ import annotations

from collections.abc import Sequence

from oncue.api.problems import HttpProblem


def check_head(headers: Sequence[tuple[bytes, bytes]]) -> HttpProblem | None:
    """Why a request with these headers is refused; their names are in lower case. Such a connection
    must be closed: a proxy in front may see the end of the request at another byte."""
    names = [name for name, _ in headers]
    if names.count(b"host") > 1:
        return HttpProblem("malformed", "The request has several Host headers; send one.")
    if b"transfer-encoding" not in names:
        return None
    codings = [
        value.strip(b" \t").lower() for name, value in headers if name == b"transfer-encoding"
    ]
    if codings != [b"chunked"]:
        text = "The only Transfer-Encoding is chunked, given once. Send Content-Encoding for gzip."
        return HttpProblem("malformed", text)
    if b"content-length" in names:
        text = "The request has both Content-Length and Transfer-Encoding; send one of them."
        return HttpProblem("malformed", text)
    return None
