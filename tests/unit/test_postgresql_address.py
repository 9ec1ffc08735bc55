"""URLs of PostgreSQL stores."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from oncue.stores.postgresql.address import PgAddress


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://ada@db/jobs", {"user": "ada", "host": "db", "dbname": "jobs"}),
        ("postgresql:///jobs?host=/var/run", {"host": "/var/run", "dbname": "jobs"}),
        ("postgresql:///jobs?service=a&schema=s", {"service": "a", "dbname": "jobs"}),
        ("postgresql://ada@/jobs?schema=s", {"user": "ada", "dbname": "jobs"}),
    ],
)
def test_libpq_is_told_what_the_url_says(url: str, told: dict[str, str]) -> None:
    assert conninfo_to_dict(PgAddress.read(url).conninfo) == told
