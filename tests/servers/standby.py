"""A server of PostgreSQL with a synchronous standby that takes over."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from tests.servers.postgres import PostgresServer


class PostgresPair:
    """`with` starts both: what the primary acknowledges, the standby has, too."""

    def __init__(self, folder: Path, version: str = "18") -> None:
        self.primary = PostgresServer(folder / "one", version)
        self.standby = PostgresServer(folder / "other", version)
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in (self.primary, self.standby))
        self.url = f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"
        """Of the one that takes writes."""

    def __enter__(self) -> Self:
        self.primary.start()
        self.standby.follow(self.primary)
        return self

    def __exit__(self, *_: object) -> None:
        for server in (self.primary, self.standby):
            server.stop("immediate")

    def fail_over(self, *, kill: bool = False) -> None:
        """The primary dies, and the standby is the primary when this returns."""
        if kill:
            self.primary.kill()
        else:
            self.primary.stop("immediate")
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def crash(self, *, kill: bool = False) -> None:
        """The same; then the one that died becomes the standby of the other."""
        self.fail_over(kill=kill)
        self.standby.follow(self.primary)
