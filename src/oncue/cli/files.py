"""The store's place on this machine: looked at before the store is opened, because opening a file
that is not there would make one."""

from __future__ import annotations

from pathlib import Path

from oncue.cli.app import App
from oncue.core.errors import StoreUnusable


def file_of(url: str) -> Path | None:
    """The file that a URL names; None for stores that have none."""
    scheme, _, rest = url.partition(":///")
    return Path(rest) if scheme == "sqlite" and rest else None


def require_file(app: App) -> None:
    """Refuse a store that does not exist yet: whoever reads from it has mistyped its name. A
    server has its own."""
    path = file_of(app.settings["store"].value)
    if path is not None and is_missing(app):
        raise StoreUnusable(missing(app, path))


def is_missing(app: App) -> bool:
    """Whether opening the store would make its file."""
    path = None if app.url is not None else file_of(app.settings["store"].value)
    return path is not None and not path.exists()


def missing(app: App, path: Path) -> str:
    from oncue.stores.sqlite.connection import has_remains
    from oncue.stores.sqlite.presence import steps

    origin = app.settings["store"].origin
    told = f"{path.absolute()}: there is no such file (the store comes from: {origin})."
    if has_remains(path):
        return (
            f"{told} But its log is there, so the file was deleted or moved away. Put the same "
            f"file back; or, for a backup or to begin without one: {steps(path)}"
        )
    return f"{told} Name the right one with --store or ONCUE_STORE; adding a first job creates it."
