"""The store, as far as moving house goes: everything out, everything in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from oncue.core.dossier import Dossier


class Export(NamedTuple):
    dossiers: Sequence[Dossier]
    next: str | None
    """Where to go on; None: that was all."""


class TransferStore(Protocol):
    def export(self, after: str | None, limit: int) -> Export:
        """A page of all jobs, finished and remembered ones too, each with its history. Jobs that
        change meanwhile are seen once, as they were or as they are."""
        ...

    def admit(self, dossiers: Sequence[Dossier]) -> int:
        """Store jobs as they are, state and all; those whose id is there are left alone. How many
        were stored. A job whose key is held by another unfinished one is refused (KeyTaken)."""
        ...
