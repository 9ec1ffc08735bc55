"""The URL of a DynamoDB store, and the client that it stands for."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from oncue.core.errors import InvalidInput

CONNECT_SECONDS = 2.0
READ_SECONDS = 5.0
CONNECTIONS = 32
_FORM = "write it as dynamodb://TABLE?region=eu-central-1, with endpoint=http://… for an emulator"


class Address(NamedTuple):
    table: str
    region: str | None = None
    """None: as boto3 finds it (environment, profile)."""
    endpoint: str | None = None

    @classmethod
    def read(cls, url: str) -> Address:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        unknown = sorted(options.keys() - {"region", "endpoint"})
        if not parts.netloc or parts.path.strip("/") or "@" in parts.netloc:
            raise InvalidInput(f"{parts.scheme}:// needs the name of a table: {_FORM}.", "/store")
        if unknown:
            raise InvalidInput(f"{unknown[0]!r} is not an option here; {_FORM}.", "/store")
        return cls(parts.netloc, options.get("region"), options.get("endpoint"))

    def connect(self) -> Any:
        """A client. Credentials are found by boto3, in its usual places. Nothing is repeated by the
        client itself: `table.py` does that."""
        try:
            import boto3
            from botocore.config import Config
        except ImportError:
            raise InvalidInput(
                "a DynamoDB store needs boto3: pip install 'oncue[aws]'.", "/store"
            ) from None
        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            max_pool_connections=CONNECTIONS,
            retries={"total_max_attempts": 1, "mode": "standard"},
        )
        return boto3.client(
            "dynamodb", region_name=self.region, endpoint_url=self.endpoint, config=config
        )
