"""The HTTP server: uvicorn in a thread of its own, started and stopped in good order."""

from __future__ import annotations

import errno
import ipaddress
import socket
import threading

import uvicorn

from oncue.api.app import Service
from oncue.api.protocol import Protocol
from oncue.api.routes.docs import load_docs
from oncue.core.errors import InvalidInput
from oncue.core.nodes import Running
from oncue.core.zone import load_zones
from oncue.scheduler import Scheduler
from oncue.usecases.tokens import Access

BACKLOG = 2048
KEEP_ALIVE_SECONDS = 75


class _Uvicorn(uvicorn.Server):
    """Answers requests that wait for work before it waits for all requests to end. Jobs that were
    claimed for clients that have left are released before the loop ends."""

    service: Service
    all_answered = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.service.drain()
        await super().shutdown(sockets)
        state = self.server_state
        self.all_answered = not (state.tasks or state.connections)
        await self.service.waiting.idle()


class HttpServer:
    """Listens as soon as it is made; answers between `start` and `stop`."""

    def __init__(
        self,
        cue: Scheduler,
        host: str,
        port: int,
        *,
        keep_alive_seconds: int = KEEP_ALIVE_SECONDS,
    ) -> None:
        """`keep_alive_seconds`: how long a connection may be without a request."""
        local = is_loopback(host)
        if not local and not Access(cue.store, cue.clock).configured:
            raise _open_to_all(host)
        self._socket = _listen(host, port)
        self.host, self.port = host, int(self._socket.getsockname()[1])
        self._reporter = cue.reporter
        self._service = Service(cue, open_to_all=local)
        self._server = _Uvicorn(
            uvicorn.Config(
                self._service,
                loop="auto",
                http=Protocol,
                ws="none",
                lifespan="off",
                interface="asgi3",
                access_log=False,
                log_config=None,
                log_level="warning",
                server_header=False,
                proxy_headers=False,
                backlog=BACKLOG,
                timeout_keep_alive=keep_alive_seconds,
            )
        )
        self._server.service = self._service
        self._thread = threading.Thread(target=self._run, name="oncue-http", daemon=True)

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def start(self) -> None:
        self._thread.start()
        self._leave = self._reporter.begin(lambda: Running(url=self.url))

    def stop(self, timeout: float) -> bool:
        """Take no more requests, answer those that were begun, end. Whether all ended in time."""
        self._server.config.timeout_graceful_shutdown = max(1, int(timeout))
        self._server.should_exit = True
        self._leave()
        self._thread.join(timeout + 1)
        return not self._thread.is_alive() and self._server.all_answered

    def _run(self) -> None:
        _load()
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._service.close()


def _load() -> None:
    """Load what routes would load when they are first asked. If connections use every descriptor of
    the process, no file can be opened, and no module imported."""
    from oncue.telemetry import prometheus  # noqa: F401

    load_docs()
    load_zones()


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_address(host: str, port: int) -> None:
    """Refuse an address at which a server without access tokens could not listen now. For a server
    whose store does not exist yet, so that none is made in vain."""
    if not is_loopback(host):
        raise _open_to_all(host)
    _listen(host, port).close()


def _open_to_all(host: str) -> InvalidInput:
    return InvalidInput(
        f"{host} can be reached from other machines, and without an access token anyone there "
        "could send requests. Create a token first ('oncue token create'), or listen on "
        "127.0.0.1.",
        "/host",
    )


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(BACKLOG)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        text = f"cannot listen on {host}:{port}: {error.strerror}."
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            todo = "Choose an address of this machine with --host."
            raise InvalidInput(f"{text} {todo}", "/host") from None
        todo = "Is another server running? Choose another port with --port."
        raise InvalidInput(f"{text} {todo}", "/port") from None
    return listening
