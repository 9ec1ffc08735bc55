"""Which jobs an SQS queue takes. Checked before a job is stored: a refusal when it is due would be
too late."""

from __future__ import annotations

from oncue.core.errors import InvalidInput, TooLarge
from oncue.ports.clock import Clock
from oncue.sinks.sqs_address import SqsAddress
from oncue.sinks.sqs_message import ATTRIBUTE_BYTES, LARGEST_BYTES, REFUSED_CHARACTERS

SMALLEST_BYTES = 1024  # the least that a queue can be set to take
ID_BYTES = 80
FRESH_SECONDS = 300.0


class SqsBounds:
    def __init__(self, address: SqsAddress, clock: Clock) -> None:
        self._address = address
        self._clock = clock
        self._read_at: float | None = None
        self._largest = LARGEST_BYTES

    def problem(self, payload: bytes) -> InvalidInput | None:
        """Why the queue would not take a job with this payload; None: it would."""
        for character in REFUSED_CHARACTERS:
            if character in payload:
                name = f"U+{ord(character.decode()):04X}"
                text = f"contains the character {name}, which the SQS queue of its sink refuses."
                return InvalidInput(text, "/payload")
        size = len(payload) + ID_BYTES + ATTRIBUTE_BYTES
        if size <= SMALLEST_BYTES or size <= self._most():
            return None
        return TooLarge(
            f"{len(payload):,} bytes as JSON; with what oncue adds, that is more than the "
            f"{self._largest:,} bytes that SQS queue {self._address.queue} takes. Store the data "
            "elsewhere and send a reference to it.",
            "/payload",
        )

    def _most(self) -> int:
        """The size of the largest message. If the queue cannot be asked, that of any queue."""
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at >= FRESH_SECONDS:
            self._read_at = now
            self._largest = self._asked()
        return self._largest

    def _asked(self) -> int:
        try:
            client = self._address.connect(tries=1)  # somebody waits to schedule a job
            url, wanted = self._address.find_url(client), ["MaximumMessageSize"]
            answer = client.get_queue_attributes(QueueUrl=url, AttributeNames=wanted)
            return int(answer["Attributes"]["MaximumMessageSize"])
        except Exception:  # no permission, no network, no queue: the delivery will tell
            return LARGEST_BYTES
