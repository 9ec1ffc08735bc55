"""A password in the URL of a store is shown nowhere: neither in a URL nor in one with a slip."""

from __future__ import annotations

from contextlib import closing

import pytest

from oncue.core.errors import InvalidInput, StoreUnavailable
from oncue.core.redaction import redacted, shown_url
from oncue.stores import open_store
from oncue.stores.migration import migration
from oncue.stores.postgresql import database
from oncue.stores.postgresql.address import PgAddress

HARMLESS = [
    "sqlite:///oncue.db",
    "sqlite:////home/a:b@c/oncue.db",
    "memory:",
    "dynamodb://jobs?region=eu-central-1&endpoint=http://localhost:8000",
    "postgresql://oncue@db.example.com:5432/jobs?schema=oncue&sslmode=verify-full",
    "postgresql://a:5432,b:5433/jobs?target_session_attrs=read-write",
    "postgresql://oncue@[::1]:5432/jobs",
    "postgresql:///jobs?host=/var/run/postgresql&passfile=/etc/oncue/pgpass",
    "http://127.0.0.1:8420",
    "mongo://jobs",
]
SLIPS = [
    "postgresql://oncue:canary@db/jobs",
    "postgresql://oncue:can%40ary@db/jobs?schema=s",
    "postgresql://oncue@db/jobs?password=canary&schema=s",
    "postgresql://oncue@db/jobs?sslmode=require&sslpassword=canary",
    "postgresql://oncue@db/jobs?password=x&canary",
    "postgresql://oncue@db/jobs?password=x&can=ary",
    "postgresql://oncue@db/jobs?PASSWORD=canary",
    "postgresql://oncue:x/canary@db/jobs",
    "postgresql://oncue:x?canary@db/jobs",
    "postgresql://oncue:x#canary@db/jobs",
    "postgresql://oncue:x@canary@db/jobs",
    "postgresql://oncue:x canary@db/jobs",
    "postgresql://oncue:x%zzcanary@db/jobs",
    "postgresql://oncue:canary@[::1/jobs",
    "postgresql://oncue:canary",
    "postgresql://oncue:canary/jobs",
    "postgresql://oncue:canary@db",
    "postgresql://oncue:canary@db/jobs?schema=No-Such",
    "postgresql://oncue:canary@db/jobs?sslmode=require&nothing=1",
    "postgresql://oncue:canary@db:port/jobs",
    "postgres://oncue:canary@db/",
    "postgres:oncue:canary@db/jobs",
    "postgres:canary@db/jobs",
    "postgresql:/oncue:canary@db/jobs",
    "postgresql//oncue:canary@db/jobs",
    "postgressql://oncue:canary@db/jobs",
    "oncue:canary@db/jobs",
    "jdbc:postgresql://db/jobs?user=oncue&password=canary",
    "host=db user=oncue password=canary dbname=jobs",
    "postgresql:host=db password='x canary' dbname=jobs",
    "sqlite://oncue:canary@db/jobs",
    "dynamodb://jobs?endpoint=http://oncue:canary@localhost:8000",
]


@pytest.mark.parametrize("url", HARMLESS)
def test_a_url_without_a_password_is_shown_as_it_is(url: str) -> None:
    assert shown_url(url) == url
    assert redacted(f"See {url} .") == f"See {url} ."


@pytest.mark.parametrize("url", SLIPS)
def test_a_password_is_not_shown(url: str) -> None:
    shown = shown_url(url)
    assert "canary" not in shown.replace("%40", "")
    assert "ary" not in shown
    assert "***" in shown


def test_what_is_no_password_is_still_shown() -> None:
    url = "postgresql://oncue:canary@db:5432/jobs?sslpassword=canary&schema=s"
    assert shown_url(url) == "postgresql://oncue:***@db:5432/jobs?sslpassword=***&schema=s"


def is_refused(url: str) -> bool:
    """Whether it cannot be the URL of a store, which is said without asking a server."""
    begin = ("postgresql://oncue:canary@db/jobs", "postgresql://oncue:can%40ary", "dynamodb")
    end = ("=canary", "password=canary&schema=s")
    could_be = url.startswith(begin) or (
        url.startswith("postgresql://oncue@") and url.endswith(end)
    )
    return not could_be or url.endswith(("No-Such", "nothing=1", "PASSWORD=canary"))


@pytest.mark.parametrize("url", [url for url in SLIPS if is_refused(url)])
def test_an_error_about_a_url_does_not_repeat_its_password(url: str) -> None:
    for use in (open_store, lambda url: migration(url).__enter__()):
        with pytest.raises(InvalidInput) as raised:
            use(url)
        assert "ary" not in str(raised.value)
        assert raised.value.__cause__ is None


def test_the_pool_logs_no_password(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "CONNECT_SECONDS", 0.5)
    address = PgAddress.read("postgresql://oncue:canary@127.0.0.1:1/jobs?sslpassword=canary")
    caplog.set_level("DEBUG", "psycopg.pool")
    with (
        closing(database.PgDatabase(address)) as db,
        pytest.raises(StoreUnavailable) as raised,
    ):
        db.once(lambda tx: tx.execute("SELECT 1"))
    assert any(record.name == "psycopg.pool" for record in caplog.records)
    assert "canary" not in caplog.text + str(raised.value) + str(raised.value.__cause__)


def test_an_address_hides_the_password_when_it_is_printed() -> None:
    address = PgAddress.read("postgresql://oncue:canary@db/jobs?sslpassword=canary&schema=s")
    assert "canary" in address.conninfo
    assert "canary" not in f"{address} {address!r} {address.shown}"
