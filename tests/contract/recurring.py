"""One schedule created, changed or deleted: what the tests say often, said briefly."""

from __future__ import annotations

from collections.abc import Sequence

from oncue.core.moment import Moment
from oncue.core.recurrence import Outcome
from oncue.core.schedule import Schedule
from oncue.ports.schedules import Advance
from oncue.ports.store import Store


def put_schedule(
    store: Store,
    seen: Schedule | None,
    schedule: Schedule,
    now: Moment,
    *,
    outcomes: Sequence[Outcome] = (),
    withdrawn: Sequence[Outcome] = (),
) -> Schedule | None:
    """The schedule as it is then; None if the change was refused."""
    change = Advance(seen, schedule, outcomes=outcomes, withdrawn=withdrawn)
    return None if store.advance([change], now) else store.schedule(schedule.name)


def delete_schedule(
    store: Store, seen: Schedule, now: Moment, *, withdrawn: Sequence[Outcome] = ()
) -> bool:
    """False: it was refused."""
    return not store.advance([Advance(seen, None, withdrawn=withdrawn)], now)
