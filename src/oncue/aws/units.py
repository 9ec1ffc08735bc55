"""What one job takes of a DynamoDB table in its life, as docs/adr/0017-dynamodb.md counts it.

A write unit is 1 KB, a read unit is 4 KB read consistently. A transaction takes twice the units,
and an entry in the index is one more write.
"""

from __future__ import annotations

from dataclasses import dataclass

WRITE_BYTES = 1024
READ_BYTES = 4096
APART_BYTES = 1024  # a larger payload is an item of its own
WAITING_BYTES = 200  # a waiting item without its payload
NEW_RECORD_BYTES = 330  # the record of a job that waits, without its payload;
HELD_RECORD_BYTES = 480  # … that a worker has claimed;
ENDED_RECORD_BYTES = 550  # … that has ended: it tells twice who delivered it or worked on it
APART_KEY_BYTES = 50  # the keys of a payload that stands apart
KEY_BYTES = 150  # the holder of a key
INDEX_BYTES = 150  # an entry in the index
STORED_BYTES = 100  # charged for each stored item beside its own bytes


@dataclass(frozen=True, slots=True)
class Life:
    """What happens to one job."""

    payload_bytes: int
    keeps_history: bool = False
    """Whether the job can be looked up after it has ended."""
    idempotent: bool = False
    """Whether it was stored with an Idempotency-Key or an id of the client's choice."""
    keyed: bool = False
    """Whether it has a key: there is at most one unfinished job of each."""
    pulled: bool = False
    """Taken by a worker that reports back; if not, delivered to a sink."""
    heartbeats: float = 0.0

    @property
    def is_recorded(self) -> bool:
        """Whether a record is left when the job has ended, for a day at least."""
        return self.keeps_history or self.pulled or self._is_recorded_at_once

    @property
    def _is_recorded_at_once(self) -> bool:
        """Whether the record is stored with the job, in a transaction."""
        return self.idempotent or self.keyed

    @property
    def writes(self) -> float:
        """Write units from storing the job to its end."""
        item, record = _units(self._waiting_bytes), self._record_units(NEW_RECORD_BYTES)
        stored = 2 * (item + record) if self._is_recorded_at_once else item
        key = 3 if self.keyed else 0  # stored in the transaction, then deleted
        return stored + item + key + self._record_writes + self._apart_writes

    @property
    def _record_writes(self) -> float:
        """Units for the record after the job was stored, with its entry in the index."""
        held, ended = map(self._record_units, (HELD_RECORD_BYTES, ENDED_RECORD_BYTES))
        if self.pulled:
            claimed, ended = held + 1, ended + (2 if self.keeps_history else 1)
            return claimed + ended + self.heartbeats * held
        return (ended if self.is_recorded else 0) + (1 if self.keeps_history else 0)

    @property
    def _apart_writes(self) -> int:
        """Units for a large payload: it is written once, and when the job has ended once more, to
        be deleted or to say when it expires."""
        return 2 * _units(self._apart_bytes)

    @property
    def reads(self) -> float:
        """Read units from storing the job to its end: its item twice, its record, and one for each
        report of a worker."""
        found = 2 * _units(self._waiting_bytes) * WRITE_BYTES / READ_BYTES + 1
        reported = 1 + self.heartbeats if self.pulled else 0
        return found + reported + -(-self._apart_bytes // READ_BYTES)

    @property
    def stored_waiting(self) -> int:
        """Bytes that are charged while it waits."""
        record = NEW_RECORD_BYTES + self._inline_bytes + STORED_BYTES
        key = KEY_BYTES + STORED_BYTES if self.keyed else 0
        recorded = record + key if self._is_recorded_at_once else 0
        return self._waiting_bytes + STORED_BYTES + recorded + self._stored_apart

    @property
    def stored_ended(self) -> int:
        """Bytes that are charged while its record is kept, without the index."""
        if not self.is_recorded:
            return 0
        return ENDED_RECORD_BYTES + self._inline_bytes + STORED_BYTES + self._stored_apart

    @property
    def stored_index(self) -> int:
        """Bytes in the index while its record is kept."""
        return INDEX_BYTES + STORED_BYTES if self.keeps_history else 0

    @property
    def _inline_bytes(self) -> int:
        return self.payload_bytes if self.payload_bytes <= APART_BYTES else 0

    @property
    def _apart_bytes(self) -> int:
        return self.payload_bytes + APART_KEY_BYTES if self.payload_bytes > APART_BYTES else 0

    @property
    def _stored_apart(self) -> int:
        return self._apart_bytes + STORED_BYTES if self._apart_bytes else 0

    @property
    def _waiting_bytes(self) -> int:
        """The payload is in the record, if there is one."""
        return WAITING_BYTES + (0 if self._is_recorded_at_once else self._inline_bytes)

    def _record_units(self, without_payload: int) -> int:
        return _units(without_payload + self._inline_bytes)


def _units(size: int) -> int:
    """Write units of an item."""
    return -(-size // WRITE_BYTES)
