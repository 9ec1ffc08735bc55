"""The end of a queue."""

from __future__ import annotations

from oncue.core.errors import Conflict, NotFound
from oncue.core.queue import check_queue_name
from oncue.engine.alarm import Alarm
from oncue.engine.engine import Engine
from oncue.engine.policies import Policies
from oncue.ports.clock import Clock
from oncue.ports.store import Store
from oncue.telemetry import Telemetry

CHUNK = 1000  # finished jobs removed in one transaction: a few milliseconds


class Queues:
    """What a scheduler does with whole queues."""

    store: Store
    clock: Clock
    policies: Policies
    telemetry: Telemetry
    engine: Engine

    def delete_queue(self, name: str) -> None:
        """Delete a queue with its settings and its finished jobs. Refused with `Conflict` while it
        has unfinished jobs, a schedule or a rule makes jobs for it, or it is built in. The name may
        be used again, with default settings.

        Many finished jobs are removed in parts, with a rest after each that is as long as its write
        took. A job that arrives meanwhile ends the deletion with `Conflict`: the queue and the job
        stay."""
        check_queue_name(name)
        alarm = Alarm(self.clock)
        while True:
            began = self.clock.monotonic()
            outcome, why = self.store.delete_queue(name, self.clock.now(), CHUNK)
            if outcome == "kept":
                raise Conflict(why)
            if outcome == "unknown":
                raise NotFound(f"there is no queue {name!r}: none was set and no job is in it.")
            if outcome == "deleted":
                break
            alarm.pause(self.clock.monotonic() - began)
        self.policies.forget()
        self.engine.policies.forget()
        self.telemetry.forget(name)
