"""A server to be measured, in a process of its own: `python -m oncue_bench.http_server APP PATH`.

It tells its port in the first line; for each line that it is sent it tells what it has used so far;
it ends with its input.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import process_time
from typing import Any, NamedTuple

from oncue.api.server import BACKLOG, HttpServer
from oncue.scheduler import Scheduler
from oncue_bench.http_bare import BareApp
from oncue_bench.machine import peak_kib
from oncue_bench.processes import environment

HOST = "127.0.0.1"


class Used(NamedTuple):
    cpu_seconds: float
    peak_kib: int


class Server:
    """The server as whoever measures it sees it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.port = int(self._line())

    def used(self) -> Used:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Used(**json.loads(self._line()))

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the server has ended")
        return line


@contextmanager
def running(app: str, path: str) -> Iterator[Server]:
    """`app` is `product` or `bare`."""
    command = [sys.executable, "-m", "oncue_bench.http_server", app, path]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment(), **pipes) as process:
        try:
            yield Server(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


def main(app: str, path: str) -> None:
    if app == "bare":
        _bare(path)
        return
    with Scheduler(f"sqlite:///{path}") as cue:
        server = HttpServer(cue, HOST, 0)
        cue.run_loops()
        server.start()
        _tell(server.port)
        server.stop(5.0)


def _bare(path: str) -> None:
    import uvicorn  # of all that is measured, only this server needs it

    listening = socket.create_server((HOST, 0), backlog=BACKLOG)
    server = uvicorn.Server(
        uvicorn.Config(
            BareApp(path),
            loop="auto",
            http="httptools",
            ws="none",
            lifespan="off",
            interface="asgi3",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
        )
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    _tell(listening.getsockname()[1])
    server.should_exit = True
    thread.join(5.0)


def _tell(port: int) -> None:
    """The port, and what was used whenever asked, until nobody asks any more."""
    print(port, flush=True)
    for _ in sys.stdin:
        print(json.dumps(Used(process_time(), peak_kib())._asdict()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
