"""The boto3 clients of a sandbox: made once for each service, because that takes long.

Region, credentials and endpoints are found by boto3, in its usual places.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from oncue import boto

READ_SECONDS = 5.0

_making = threading.Lock()
_made: dict[tuple[str | None, ...], Any] = {}


def client(service: str) -> Any:
    """A client that does not repeat requests: its caller decides about that."""
    of_service = f"AWS_ENDPOINT_URL_{service.upper()}"
    variables = ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", of_service)
    key = (service, *map(os.environ.get, variables))
    with _making:
        if key not in _made:
            _made[key] = boto.connect(
                *(service, None, None),
                name=f"the client of {service}",
                pointer="/AWS_REGION",
                read_timeout=READ_SECONDS,
                retries={"total_max_attempts": 1, "mode": "standard"},
            )
        return _made[key]


def close() -> None:
    """Close the connections. Lambda never does; tests do."""
    with _making:
        while _made:
            _made.popitem()[1].close()
