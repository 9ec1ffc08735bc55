"""The time of DynamoDB: the clock of this machine, corrected by what the answers say.

Every answer of the service carries its time in the header `Date`, in whole seconds. With the
moments at which the request was sent and the answer received, each of them bounds how far this
machine's clock is off. Answers come at all parts of a second, so the bounds of many are narrow:
about the time that a request takes.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from oncue.clock import SystemClock
from oncue.core.errors import StoreUnavailable
from oncue.core.moment import Moment, from_datetime
from oncue.ports.clock import Clock

MOST_SKEW_SECONDS = 2.0
"""Beyond this no work is taken."""
DRIFT = 0.0005
"""By how much two clocks may drift apart, in milliseconds for each: more than NTP ever does."""
_SENT = "oncue_sent"


class OffsetBounds(NamedTuple):
    """The service is ahead of this machine by `least` to `most` milliseconds."""

    least: float
    most: float
    at: float
    """When that was known, by the monotonic clock."""

    def later(self, at: float) -> OffsetBounds:
        """What is left of it: since then both clocks went on by themselves."""
        wider = max(0.0, at - self.at) * 1000 * DRIFT
        return OffsetBounds(self.least - wider, self.most + wider, at)

    def met(self, other: OffsetBounds) -> OffsetBounds:
        """What both say. If they contradict each other, a clock was set: the other one counts."""
        least, most = max(self.least, other.least), min(self.most, other.most)
        return OffsetBounds(least, most, other.at) if least <= most else other

    @property
    def surely_ms(self) -> float:
        """By how much the service is ahead of this machine at least; negative: behind it. 0: the
        clocks may be the same."""
        return max(self.least, 0.0) + min(self.most, 0.0)


class ServiceClock:
    """Implements `oncue.ports.clock.Clock`. As long as the answers allow this machine's clock to be
    right, it is taken as it is; if they do not, it is corrected to the earliest time that it can be
    by the service's clock, so that nothing is early."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._bounds: OffsetBounds | None = None  # replaced as a whole: any thread may read it

    def now(self) -> Moment:
        return self._clock.now() + self._correction_ms

    def seconds_until(self, moment: Moment) -> float:
        return self._clock.seconds_until(moment - self._correction_ms)

    @property
    def _correction_ms(self) -> int:
        known = self._bounds
        return 0 if known is None or not known.surely_ms else int(known.least // 1)

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def origin(self) -> str:
        return self._clock.origin()

    @property
    def skew_seconds(self) -> float:
        """By how much the service is ahead of this machine at least; negative: behind it."""
        return 0.0 if self._bounds is None else self._bounds.surely_ms / 1000

    @property
    def uncertainty_seconds(self) -> float | None:
        """By how much the clocks may differ as far as is known; None: nothing is."""
        known = self._bounds
        return None if known is None else max(-known.least, known.most) / 1000

    def require_agreement(self, ask: Callable[[], object]) -> None:
        """Refuse to take work by a clock that is far from that of the service. `ask` makes a
        request: the clock may have been set since the last one."""
        if self._is_far_off:
            ask()
        if self._is_far_off:
            raise StoreUnavailable(
                f"{self.skew_text}. No work is taken until they differ by less than "
                f"{MOST_SKEW_SECONDS:g} s: set the clock, and keep it right with NTP."
            )

    @property
    def _is_far_off(self) -> bool:
        return abs(self.skew_seconds) > MOST_SKEW_SECONDS

    @property
    def skew_text(self) -> str:
        skew = self.skew_seconds
        side = "behind" if skew > 0 else "ahead of"
        return f"the clock of this machine is {abs(skew):.1f} s {side} that of DynamoDB"

    # What the answers say.

    def listen(self, client: Any) -> Any:
        """Learn from every answer that this client of boto3 receives. The client."""
        events = client.meta.events
        events.register("before-call.dynamodb", self._on_request)
        events.register("after-call.dynamodb", self._on_answer)
        return client

    def _on_request(self, context: dict[str, Any], **_: Any) -> None:
        # In this order: a pause between the two readings makes the bounds wider, and never wrong.
        monotonic = self._clock.monotonic()
        context[_SENT] = self._clock.now(), monotonic

    def _on_answer(self, http_response: Any, context: dict[str, Any], **_: Any) -> None:
        date = http_response.headers.get("Date")
        if date and _SENT in context:
            self.heard(date, *context[_SENT])

    def heard(self, date: str, sent: Moment, sent_monotonic: float) -> None:
        """An answer with this `Date` was received now; the request was sent then, by the clocks of
        this machine."""
        try:
            parsed = parsedate_to_datetime(date)
        except ValueError:
            return
        theirs = from_datetime(parsed.replace(tzinfo=UTC))  # a Date is always in GMT
        at = self._clock.monotonic()
        received = sent + (at - sent_monotonic) * 1000  # also if the clock was set meanwhile
        new = OffsetBounds(theirs - received - 1, theirs + 1000 - sent, at)
        known = self._bounds
        self._bounds = new if known is None else known.later(at).met(new)
