"""One request at a time that may take long, and that can be ended without losing its answer."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from http.client import HTTPException

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from oncue.client.connection import Call, Connection, answer_of


class Polling:
    """For one thread that asks, on a connection of its own, and any that calls `stop`.

    To stop, only our side of the connection is closed. The server then knows that this client waits
    no more; an answer that it had sent already still arrives, and is returned.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        address = connection.address
        kind = HTTPSConnection if address.scheme == "https" else HTTPConnection
        self._line = kind(address.host, address.port)
        self._changing = threading.Lock()
        self._stopped = False

    def ask(self, request: Call) -> bytes | None:
        """The body of the answer; None once stopped. Never asked twice."""
        try:
            if not self._connect(request):
                return None
            self._line.request(
                request.method,
                self._connection.address.prefix + request.path,
                body=request.body,
                headers=self._connection.headers_of(request),
            )
            answer = answer_of(self._line.getresponse())
        except (OSError, HTTPException, HTTPError) as trouble:
            self._line.close()
            if self._stopped:
                return None
            raise self._connection.lost(trouble, request) from None
        return self._connection.read(answer, request)

    def stop(self) -> None:
        """End the request under way, and answer every later one with None."""
        with self._changing:
            self._stopped = True
            if (line := self._line.sock) is not None:
                # Not by the layer of TLS: it could then not read an answer that is on its way.
                with suppress(OSError):
                    socket.socket.shutdown(line, socket.SHUT_WR)

    def close(self) -> None:
        self._line.close()

    def _connect(self, request: Call) -> bool:
        """Connect if necessary, and set the time-out of the answer. Whether to go on."""
        connect, read = self._connection.patience(request)
        if not self._line.is_connected:
            self._line.close()
            self._line.timeout = connect
            self._line.connect()
        with self._changing:
            if self._stopped or self._line.sock is None:
                return False
            self._line.sock.settimeout(read)
        return True
