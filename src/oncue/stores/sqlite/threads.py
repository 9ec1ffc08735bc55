"""Threads of a store, where the system may not let one be started."""

from __future__ import annotations

import threading
from pathlib import Path

from oncue.core.errors import StoreUnavailable


def start(thread: threading.Thread, path: Path) -> None:
    """Start a thread of the store, if the system lets one be started now."""
    try:
        thread.start()
    except RuntimeError as error:
        raise StoreUnavailable(
            f"{path}: nothing was done, as no thread could be started ({error}). Raise the limit "
            "of threads of this user or container, or call again."
        ) from error


def join(thread: threading.Thread | None) -> None:
    """Wait for the end of a thread, if it was ever started."""
    if thread is not None and thread.ident is not None:
        thread.join()
