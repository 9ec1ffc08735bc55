"""The URL of a DynamoDB store, and the client that it stands for."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from oncue import boto
from oncue.core.errors import InvalidInput

READ_SECONDS = 5.0
CONNECTIONS = 32
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_FORM = "write it as dynamodb://TABLE?region=eu-central-1, with &endpoint=http://… for an emulator"


class TableAddress(NamedTuple):
    table: str
    region: str | None = None
    """None: as boto3 finds it (environment, profile)."""
    endpoint: str | None = None
    """None: that of the region, or of boto3's own variables."""

    @classmethod
    def read(cls, url: str) -> TableAddress:
        """Refuses what is not such a URL, and every URL where boto3 is not installed."""
        parts = urlsplit(url)
        if not parts.netloc or parts.path.strip("/") or parts.fragment:
            raise InvalidInput(f"{url!r} names no table; {_FORM}.", "/store")
        boto.check_no_credentials(parts.netloc, "store", _FORM, "/store")
        if not _TABLE.fullmatch(parts.netloc):
            raise InvalidInput(
                f"{parts.netloc!r} cannot be the name of a table: three or more letters, digits, "
                f"'-', '_' and '.'; {_FORM}.",
                "/store",
            )
        options = boto.read_options(parts.query, "a DynamoDB store", _FORM, "/store")
        return cls(parts.netloc, options.get("region"), options.get("endpoint"))

    def connect(self) -> Any:
        """A client. Nothing is repeated by the client itself: `table.py` does that."""
        return boto.connect(
            *("dynamodb", self.region, self.endpoint),
            name=f"table {self.table}",
            pointer="/store",
            read_timeout=READ_SECONDS,
            max_pool_connections=CONNECTIONS,
            retries={"total_max_attempts": 1, "mode": "standard"},
        )
