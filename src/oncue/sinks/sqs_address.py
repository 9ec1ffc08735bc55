"""The URL of an SQS sink, and the client that it stands for."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from oncue import boto
from oncue.core.errors import InvalidInput
from oncue.core.text import quoted

READ_SECONDS = 10.0
CALLS_AT_ONCE = 64
TRIES = 4
_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}|[A-Za-z0-9_-]{1,75}\.fifo")
_PATH = re.compile(r"/\d{12}/([^/]+)")
_REGION = re.compile(r"(?:sqs\.)?([a-z]{2,}(?:-[a-z]+)+-\d)\.(?:queue\.)?amazonaws\.com(?:\.cn)?")
_FORM = (
    "write it as sqs://QUEUE?region=eu-central-1, with &endpoint=http://… for an emulator, or as "
    "the URL of the queue"
)


def is_queue_url(url: str) -> bool:
    """Whether it is the URL of a queue as SQS names it: …/ACCOUNT/QUEUE."""
    return url.startswith(("https://", "http://")) and bool(_PATH.fullmatch(urlsplit(url).path))


class SqsAddress(NamedTuple):
    queue: str
    region: str | None = None
    """None: as boto3 finds it (environment, profile)."""
    endpoint: str | None = None
    """None: that of the region, or of boto3's own variables."""
    url: str | None = None
    """Of the queue; None: see `find_url`."""

    @classmethod
    def read(cls, url: str) -> SqsAddress:
        """Refuses what is not such a URL, and every URL where boto3 is not installed."""
        parts = urlsplit(url)
        boto.check_no_credentials(parts.netloc, "sink", _FORM, "/sink")
        found = cls._of_queue_url(url) if parts.scheme != "sqs" else cls._of_name(url)
        if not _NAME.fullmatch(found.queue):
            raise InvalidInput(
                f"{quoted(found.queue)} cannot be the name of an SQS queue: 1 to 80 letters, "
                f"digits, '-' and '_', at the end '.fifo' for a FIFO queue; {_FORM}.",
                "/sink",
            )
        return found

    @classmethod
    def _of_name(cls, url: str) -> SqsAddress:
        parts = urlsplit(url)
        if not parts.netloc or parts.path.strip("/") or parts.fragment:
            raise InvalidInput(f"{quoted(url)} names no SQS queue; {_FORM}.", "/sink")
        options = boto.read_options(parts.query, "an SQS sink", _FORM, "/sink")
        return cls(parts.netloc, options.get("region"), options.get("endpoint"))

    @classmethod
    def _of_queue_url(cls, url: str) -> SqsAddress:
        parts = urlsplit(url)
        name = _PATH.fullmatch(parts.path)
        boto.require_boto3("an SQS sink", "/sink")
        if name is None or parts.query or parts.fragment:
            raise InvalidInput(f"{quoted(url)} is not the URL of an SQS queue; {_FORM}.", "/sink")
        region = _REGION.fullmatch(parts.netloc)
        if region is not None:
            return cls(name[1], region[1], None, url)
        return cls(name[1], None, f"{parts.scheme}://{parts.netloc}", url)

    @property
    def is_fifo(self) -> bool:
        return self.queue.endswith(".fifo")

    def find_url(self, client: Any) -> str:
        """The URL of the queue; if the address has only its name, SQS is asked."""
        return self.url or str(client.get_queue_url(QueueName=self.queue)["QueueUrl"])

    def connect(self, tries: int = TRIES) -> Any:
        """A client. It repeats a call that was throttled, or whose answer did not come, with
        growing random pauses; in all it makes so many tries."""
        return boto.connect(
            *("sqs", self.region, self.endpoint),
            name=f"SQS queue {self.queue}",
            pointer="/sink",
            read_timeout=READ_SECONDS,
            max_pool_connections=CALLS_AT_ONCE,
            retries={"total_max_attempts": tries, "mode": "standard"},
        )
