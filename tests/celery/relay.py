"""A way to a broker that can go silent: the connections stay open, and nothing comes through."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit


class Relay:
    def __init__(self, url: str) -> None:
        self._to = urlsplit(url)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._listening]
        self._threads: list[threading.Thread] = []
        self._is_silent = False
        own = self._listening.getsockname()[1]
        self.url = url.replace(f":{self._to.port}", f":{own}")
        self._run(self._accept)

    def go_silent(self) -> None:
        self._is_silent = True

    def close(self) -> None:
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join()

    def _run(self, target: Callable[..., None], *args: socket.socket) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection((self._to.hostname, self._to.port))
                self._open += [client, server]
                self._run(self._pass_on, client, server)
                self._run(self._pass_on, server, client)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if not self._is_silent:
                    target.sendall(data)
