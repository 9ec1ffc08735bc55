"""Runs a server for as long as its owner lives: python guard.py FOLDER NAME SIGNAL COMMAND…

The owner holds a lock on `FOLDER/owner`. When that lock is free, the owner has ended, in whatever
way, and the server is stopped by the signal of that number. The guard holds a lock on
`FOLDER/NAME.guard` as long as it lives, and writes its pid there once SIGTERM ends both.
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
    folder, name, stop, *command = sys.argv[1:]
    orphaned = threading.Event()
    with open(Path(folder, f"{name}.guard"), "w") as own:
        fcntl.lockf(own, fcntl.LOCK_EX)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL)

        def outlive() -> None:
            """Wait for the end of the owner, and end the server in its place."""
            with open(Path(folder, "owner")) as owner:
                fcntl.lockf(owner, fcntl.LOCK_SH)
                orphaned.set()
                server.send_signal(int(stop))

        signal.signal(signal.SIGTERM, lambda *_: server.send_signal(int(stop)))
        threading.Thread(target=outlive, daemon=True).start()
        print(os.getpid(), file=own, flush=True)
        status = server.wait()
        if orphaned.is_set():  # only now: a server that runs writes files into its folder
            shutil.rmtree(folder, ignore_errors=True)
        return status


if __name__ == "__main__":
    sys.exit(main())
