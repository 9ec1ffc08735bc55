"""The boto3 clients of a sandbox: made once for each service, because that takes long.

Region, credentials and endpoints are found by boto3, in its usual places.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from oncue.core.errors import InvalidInput
from oncue.stores.dynamodb.address import CONNECT_SECONDS, LEAN, READ_SECONDS

_making = threading.Lock()
_made: dict[tuple[str | None, ...], Any] = {}


def client(service: str) -> Any:
    """A client that repeats nothing by itself: who asks decides about that."""
    of_service = f"AWS_ENDPOINT_URL_{service.upper()}"
    variables = ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", of_service)
    key = (service, *map(os.environ.get, variables))
    with _making:
        if key not in _made:
            _made[key] = _connect(service)
        return _made[key]


def close() -> None:
    """Give the connections back. Lambda never does; tests and local invocations do."""
    with _making:
        while _made:
            _made.popitem()[1].close()


def _connect(service: str) -> Any:
    from boto3.session import Session
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, NoRegionError

    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"total_max_attempts": 1, "mode": "standard"},
        **LEAN,
    )
    session: Any = Session()
    try:
        return session.client(service, config=config)
    except NoRegionError:
        raise InvalidInput("no region is known: set AWS_REGION.", "/AWS_REGION") from None
    except (BotoCoreError, ValueError) as error:
        raise InvalidInput(f"boto3 refuses the settings for {service}: {error}") from None
