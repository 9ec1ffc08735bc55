"""Kill runs in which nobody dies but the server of PostgreSQL, again and again, under load."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.kills import EVERYBODY, Crew, KillRun
from tests.chaos.places import unused_schema
from tests.proof.checker import Card
from tests.proof.entries import Struck
from tests.servers.postgres import PostgresServer
from tests.servers.standby import PostgresPair

SERVED = Crew(EVERYBODY.numbers, dict.fromkeys(EVERYBODY.fates, ("",)))
"""Everybody, and none of them dies."""
PEACE_SECONDS = (0.5, 2.0)  # between two deaths


@dataclass
class CrashRun(KillRun):
    """`kills` is how often the server dies: by turns at once, as of a crash, and by SIGKILL. It is
    restarted; of a pair, the other takes over."""

    crew: Crew = SERVED
    server: PostgresServer | PostgresPair | None = None
    _crash_at: float = field(default=0.0)

    def _strike(self) -> None:
        if self.struck >= self.kills or time.monotonic() < self._crash_at:
            return
        # Whoever starts without a server ends, and says why.
        if self.server is None or not all((self.folder / m.name).exists() for m in self._crew):
            return
        self._log.record(Struck("server", "restart"))
        self.struck += 1
        self.server.crash(kill=self.struck % 2 == 0)
        self._crash_at = time.monotonic() + self._random.uniform(*PEACE_SECONDS)


def crash_server(
    folder: Path,
    server: PostgresServer | PostgresPair,
    *,
    jobs: int,
    crashes: int,
    seconds: float,
    takeover_seconds: float,
    seed: int = 0,
) -> Card:
    """The card of a run on that server, which is started for it. Its logs are in the folder."""
    with server:
        return CrashRun(
            folder,
            jobs=jobs,
            kills=crashes,
            seconds=seconds,
            takeover_seconds=takeover_seconds,
            seed=seed,
            url=unused_schema(server.url),
            server=server,
        ).run()
