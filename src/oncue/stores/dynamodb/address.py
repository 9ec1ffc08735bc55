"""The URL of a DynamoDB store, and the client that it stands for."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from oncue.core.errors import InvalidInput

CONNECT_SECONDS = 2.0
READ_SECONDS = 5.0
CONNECTIONS = 32
LEAN: dict[str, Any] = {"parameter_validation": False, "user_agent": "oncue"}
"""Botocore spends more than half of its time for a batch on comparing it with the model of the
service, and on saying on which machine it runs."""
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
        if "@" in parts.netloc:  # not repeated: it may be a secret
            raise InvalidInput(
                "credentials do not belong into the URL of a store: boto3 finds them in the "
                f"environment, a profile or a role; {_FORM}.",
                "/store",
            )
        if not _TABLE.fullmatch(parts.netloc):
            raise InvalidInput(
                f"{parts.netloc!r} cannot be the name of a table: three or more letters, digits, "
                f"'-', '_' and '.'; {_FORM}.",
                "/store",
            )
        options = _options(parts.query)
        if find_spec("boto3") is None:
            raise InvalidInput("a DynamoDB store needs boto3: pip install 'oncue[aws]'", "/store")
        return cls(parts.netloc, options.get("region"), options.get("endpoint"))

    def connect(self) -> Any:
        """A client. Credentials are found by boto3, in its usual places. Nothing is repeated by the
        client itself: `table.py` does that."""
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, NoRegionError

        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            max_pool_connections=CONNECTIONS,
            retries={"total_max_attempts": 1, "mode": "standard"},
            **LEAN,
        )
        try:
            return boto3.client(
                "dynamodb", region_name=self.region, endpoint_url=self.endpoint, config=config
            )
        except NoRegionError:
            raise InvalidInput(
                f"no region is known for table {self.table}: add ?region=eu-central-1 (or yours) "
                "to the URL, or set AWS_DEFAULT_REGION.",
                "/store",
            ) from None
        except (BotoCoreError, ValueError) as error:  # a profile, region or endpoint of no sense
            raise InvalidInput(f"boto3 refuses the settings: {error}", "/store") from None


def _options(query: str) -> dict[str, str]:
    try:
        options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError:
        raise InvalidInput(f"{query!r} is not of the form name=value; {_FORM}.", "/store") from None
    for name in sorted(options.keys() - {"region", "endpoint"}):
        raise InvalidInput(f"{name!r} is not an option of a DynamoDB store; {_FORM}.", "/store")
    for name, value in options.items():
        if not value:
            raise InvalidInput(f"{name} has no value; {_FORM}.", "/store")
    return options
