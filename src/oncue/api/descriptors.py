"""How many files this process may have open: each connection is one."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress

RESERVE = 40  # for what is opened later: readers of the store, sinks, a page
LEAST = 8
BESIDES = 256  # that `oncue serve` asks for besides its connections


def room_for_connections() -> int:
    """How many connections leave enough for everything else."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return sys.maxsize
    return max(LEAST, allowed - _open_files() - RESERVE)


def allow_open_files(connections: int) -> None:
    """Let this process have so many connections, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + BESIDES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and wanted > soft:
        with suppress(OSError, ValueError):  # a system may have a limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _open_files() -> int:
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:
        return 3
