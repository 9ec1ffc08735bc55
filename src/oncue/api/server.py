"""The HTTP server: listens, and is started and stopped in good order."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
import threading

from oncue.api.app import Service
from oncue.api.connections import LOOK_SECONDS, ConnectionLimits, Connections
from oncue.api.descriptors import room_for_connections
from oncue.api.routes.docs import load_docs
from oncue.core.errors import InvalidInput
from oncue.core.nodes import Running
from oncue.core.zone import load_zones
from oncue.scheduler import Scheduler
from oncue.usecases.tokens import Access

BACKLOG = 2048

logger = logging.getLogger("oncue.http")


class HttpServer:
    """Listens as soon as it is made; answers between `start` and `stop`, in a thread of its own."""

    def __init__(
        self, cue: Scheduler, host: str, port: int, *, limits: ConnectionLimits | None = None
    ) -> None:
        local, access = is_loopback(host), Access(cue.store, cue.clock)
        self.refuses_all = access.closed and not access.configured
        """Every caller needs a token, and there is none."""
        if not local and not access.configured:
            raise _open_to_all(host)
        self._socket = _listen(host, port)
        self.host, self.port = host, int(self._socket.getsockname()[1])
        self._reporter = cue.reporter
        self._service = Service(cue, open_to_all=local)
        limits = limits or ConnectionLimits()
        most = min(limits.connections, room_for_connections())
        self._connections = Connections(self._service, limits._replace(connections=most))
        self._stopping = asyncio.Event()
        self._grace_seconds = 0.0
        self._all_answered = False
        self._runner = asyncio.Runner(loop_factory=new_loop)
        self._thread = threading.Thread(target=self._run, name="oncue-http", daemon=True)

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def start(self) -> None:
        self._connections.loop = self._runner.get_loop()
        self._thread.start()
        self._leave = self._reporter.begin(lambda: Running(url=self.url))

    def stop(self, timeout: float) -> bool:
        """Take no more requests, answer those that were begun, end. Whether all ended in time."""
        self._grace_seconds = timeout
        self._connections.loop.call_soon_threadsafe(self._stopping.set)
        self._leave()
        self._thread.join(timeout + 2)
        return not self._thread.is_alive() and self._all_answered

    def _run(self) -> None:
        try:
            _load()
            with self._runner as runner:
                runner.run(self._serve())
        finally:
            self._service.close()

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        self._connections.look()
        listening = await loop.create_server(
            self._connections.connect, sock=self._socket, backlog=BACKLOG
        )
        looking = loop.create_task(self._look())
        await self._stopping.wait()
        looking.cancel()
        listening.close()
        self._service.drain()
        self._all_answered = await self._connections.end(self._grace_seconds)
        # Jobs that were claimed for clients that have left are released before the loop ends.
        await self._service.waiting.idle()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                self._connections.look()
            except Exception:  # else a defect at one connection would end the deadlines of all
                logger.exception("closing connections that take too long failed")


def new_loop() -> asyncio.AbstractEventLoop:
    """The quick one, where there is one."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


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
    check_free(host, port)


def check_free(host: str, port: int) -> None:
    """Refuse an address at which nothing could listen now."""
    _listen(host, port).close()


def _open_to_all(host: str) -> InvalidInput:
    return InvalidInput(
        f"{host} can be reached from other machines, where every caller needs an access token, and "
        "there is none. Create one first ('oncue token create'), or listen on 127.0.0.1.",
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
            todo = "Choose an address of this machine with --host or ONCUE_HOST."
            raise InvalidInput(f"{text} {todo}", "/host") from None
        todo = "Is another server running? Choose another port with --port or ONCUE_PORT."
        raise InvalidInput(f"{text} {todo}", "/port") from None
    return listening
