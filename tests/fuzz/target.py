"""A server that is sent anything, and what must be true of its answers."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.http.server import Server, running_server

ANSWER_SECONDS = 30.0
MEMORY_KIB = 512 * 1024  # the most that the server may ever have used
WITHOUT_BODY = (204, 304)
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) [ -~]*")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+): ?([\x20-\x7e\x80-\xff]*)")


class Answer(NamedTuple):
    status: int
    headers: dict[bytes, bytes]
    body: bytes


class Target:
    def __init__(self, server: Server, patience: float) -> None:
        """`patience`: so many seconds after the last byte, a request without an answer is taken for
        incomplete, and its connection is ended."""
        self.server = server
        self._patience = patience
        self._logged = 0
        place = urlsplit(server.url)
        self._address = (str(place.hostname), place.port or 0)

    def fire(self, data: bytes) -> None:
        """Send these bytes on a connection of their own, and check what comes back."""
        received, was_reset = self._exchanged(data)
        assert self.server.process.poll() is None, "the server ended"
        for answer in read_answers(received, was_reset):
            check(answer)
        self._check_log()

    def check_at_the_end(self) -> None:
        assert self.server.get("/livez").status == 200
        assert self.server.get("/jobs").status == 200
        self._check_log()
        status = Path(f"/proc/{self.server.process.pid}/status").read_text("ascii")
        [used] = re.findall(r"VmHWM:\s+(\d+) kB", status)
        assert int(used) < MEMORY_KIB, f"the server used {used} KiB"

    def _check_log(self) -> None:
        """Of what was logged since the last time. It may come a moment after the answer."""
        new = "".join(self.server.said[self._logged :])
        self._logged = len(self.server.said)
        assert "Traceback" not in new, new[new.index("Traceback") :][:3000]

    def _exchanged(self, data: bytes) -> tuple[bytes, bool]:
        """Everything that is answered, and whether the connection was reset: then the end of the
        answer may be missing."""
        received = b""
        with socket.create_connection(self._address, ANSWER_SECONDS) as connection:
            try:
                connection.sendall(data)
                connection.settimeout(self._patience)
                with suppress(TimeoutError):
                    while part := connection.recv(65_536):
                        received += part
                    return received, False
                connection.settimeout(ANSWER_SECONDS)
                connection.shutdown(socket.SHUT_WR)
                while part := connection.recv(65_536):
                    received += part
            except TimeoutError:
                raise AssertionError("the server leaves the connection open") from None
            except OSError:
                return received, True
        return received, False


def read_answers(data: bytes, was_reset: bool) -> Iterator[Answer]:
    while data:
        head, end, rest = data.partition(b"\r\n\r\n")
        if was_reset and not end:
            return
        assert end, f"an answer without an end of its head: {data[:300]!r}"
        line, *lines = head.split(b"\r\n")
        found = _STATUS.fullmatch(line)
        assert found, f"not the first line of an answer: {line[:300]!r}"
        headers = dict(map(_header, lines))
        status = int(found[1])
        size = int(headers.get(b"content-length", b"0"))
        if status < 200 or status in WITHOUT_BODY or not rest or rest.startswith(b"HTTP/1.1 "):
            size = 0  # no body, or the answer to a HEAD
        if was_reset and len(rest) < size:
            return
        assert len(rest) >= size, f"an answer that is too short: {data[:300]!r}"
        yield Answer(status, headers, rest[:size])
        data = rest[size:]


def _header(line: bytes) -> tuple[bytes, bytes]:
    found = _HEADER.fullmatch(line)
    assert found, f"not a header: {line[:300]!r}"
    return found[1].lower(), found[2]


def check(answer: Answer) -> None:
    """No answer says that the server failed, and every error is a problem."""
    assert answer.status < 500, f"{answer.status}: {answer.body[:1000]!r}"
    if answer.status < 400:
        return
    assert answer.headers[b"content-type"] == b"application/problem+json"
    if answer.body:
        fields = json.loads(answer.body)
        assert fields["status"] == answer.status
        assert fields["type"].startswith("/problems/")
        assert fields["detail"]


@contextmanager
def target(folder: Path, patience: float) -> Iterator[Target]:
    with running_server(folder) as server:
        found = Target(server, patience)
        yield found
        found.check_at_the_end()
