"""Moving house in memory: everything out, everything in."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest

from oncue.core.dossier import Dossier, key_taken
from oncue.core.lifecycle import FINAL
from oncue.ports.transfer import Export
from oncue.stores.memory.record import Record
from oncue.stores.memory.shelves import Shelves


class MemoryTransfer(Shelves):
    """Implements `oncue.ports.transfer.TransferStore`."""

    def export(self, after: str | None, limit: int) -> Export:
        with self._lock:
            ids = nsmallest(limit, (known for known in self._records if known > (after or "")))
            dossiers = [self._records[known].as_dossier() for known in ids]
            return Export(dossiers, ids[-1] if len(ids) == limit else None)

    def admit(self, dossiers: Sequence[Dossier]) -> int:
        with self._writing():
            return sum(self._admit(dossier) for dossier in dossiers)

    def _admit(self, dossier: Dossier) -> int:
        job = dossier.job
        if job.id in self._records:
            return 0
        held = job.key is not None and (job.queue, job.key) in self._keys
        if held and job.state not in FINAL:
            raise key_taken(job)
        record = self._records[job.id] = Record.from_dossier(dossier)
        self._refile(record)
        return 1
