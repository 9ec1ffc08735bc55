"""The kill run in which nobody dies but the server of PostgreSQL, again and again, under load."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.kills import EVERYBODY, Crew, KillRun
from tests.chaos.places import unused_schema
from tests.proof.checker import Card
from tests.proof.entries import Struck
from tests.servers.postgres import PostgresServer

SERVED = Crew(EVERYBODY.numbers, dict.fromkeys(EVERYBODY.fates, ("",)))
"""Everybody, and none of them dies."""
PEACE_SECONDS = (0.5, 2.0)  # between two restarts


@dataclass
class RestartRun(KillRun):
    """`kills` is how often the server dies: by turns at once, as of a crash, and by SIGKILL."""

    crew: Crew = SERVED
    server: PostgresServer | None = None
    _restart_at: float = field(default=0.0)

    def _strike(self) -> None:
        if self.struck >= self.kills or time.monotonic() < self._restart_at:
            return
        # Whoever starts without a server ends, and says why.
        if self.server is None or not all((self.folder / m.name).exists() for m in self._crew):
            return
        if self.struck % 2:
            self.server.kill()
        else:
            self.server.stop("immediate")
        self._log.record(Struck("server", "restart"))
        self.struck += 1
        self.server.start()
        self._restart_at = time.monotonic() + self._random.uniform(*PEACE_SECONDS)


def restart_server(
    folder: Path, *, jobs: int, restarts: int, seconds: float, takeover_seconds: float, seed: int
) -> Card:
    """The card of a run on a server of its own."""
    logs = folder / "logs"
    logs.mkdir()
    with PostgresServer(folder / "server") as server:
        return RestartRun(
            logs,
            jobs=jobs,
            kills=restarts,
            seconds=seconds,
            takeover_seconds=takeover_seconds,
            seed=seed,
            url=unused_schema(server.url),
            server=server,
        ).run()
