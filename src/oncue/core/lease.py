"""The lease of a claim: how long silence is borne, and who asked for it.

A claim begins with a lease. If a dispatcher made the claim, hand-over to the sink ends that lease:
nobody can expect a heartbeat from a worker that may not have the job yet. A heartbeat of the worker
that names a length begins a lease of the worker's own, which neither the dispatcher's renewals nor
the hand-over change. So it makes no difference whether the worker or the hand-over comes first.
"""

from __future__ import annotations

from typing import NamedTuple

from oncue.core.moment import Moment


class Lease(NamedTuple):
    until: Moment | None
    """None: silence is not bounded."""
    asked: bool = False
    """Whether the worker asked for it, by a heartbeat."""

    def after_heartbeat(self, until: Moment | None) -> Lease:
        """The worker was heard, and asks for a lease until then; None: it does not ask for one, as
        when it only says that it starts."""
        return self if until is None else Lease(until, True)

    def after_renewal(self, until: Moment | None) -> Lease:
        """The dispatcher that still delivers the job renews what it holds."""
        if until is None or self.asked or self.until is None:
            return self
        return Lease(until)

    def after_hand_over(self) -> Lease:
        """A sink took the job for a worker elsewhere."""
        return self if self.asked else NO_LEASE


NO_LEASE = Lease(None)
