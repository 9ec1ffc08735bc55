"""Runs a server for as long as its owner lives: python guard.py FOLDER NAME COMMAND…

The owner holds a lock on `FOLDER/owner`. When that lock is free, the owner has ended, in whatever
way, and the server is killed: it has nothing to save. The guard holds a lock on `FOLDER/NAME.guard`
as long as it lives, and writes its pid there once SIGTERM ends both.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path


def main() -> int:
    folder, name, *command = sys.argv[1:]
    with open(Path(folder, f"{name}.guard"), "w") as own:
        fcntl.lockf(own, fcntl.LOCK_EX)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        signal.signal(signal.SIGTERM, lambda *_: server.kill())
        threading.Thread(target=_outlive, args=(Path(folder), server), daemon=True).start()
        print(os.getpid(), file=own, flush=True)
        return server.wait()


def _outlive(folder: Path, server: subprocess.Popen[bytes]) -> None:
    """Wait for the end of the owner, and clear up in its place."""
    with open(folder / "owner") as owner:
        fcntl.lockf(owner, fcntl.LOCK_SH)
        shutil.rmtree(folder, ignore_errors=True)
        server.kill()


if __name__ == "__main__":
    sys.exit(main())
