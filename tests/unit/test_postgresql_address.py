"""URLs of PostgreSQL stores."""

from __future__ import annotations

import pytest
from psycopg import OperationalError
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import InsufficientPrivilege

from oncue.core.errors import InvalidInput
from oncue.stores.postgresql.address import PgAddress
from oncue.stores.postgresql.database import connect_options
from oncue.stores.postgresql.trouble import translate


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


HIDDEN = "one in the URL (not shown: it may be part of the password)"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("ada@db/jobs?pool_sise=3", "'pool_sise'. Did you mean 'pool_size'? Known are"),
        ("ada:geheim@db/jobs?pool_sise=3", f"{HIDDEN}. Did you mean 'pool_size'? Known are"),
        (
            "ada:geheim@db/jobs?geheim=1&ssl_mode=require",
            f"{HIDDEN}. Did you mean 'sslmode'? Known",
        ),
        ("ada:geheim@db/jobs?qq=3", f"{HIDDEN}. Known are"),
        ("ada@db/jobs?qq=3", "'qq'. Known are"),
    ],
)
def test_an_option_that_is_misspelt_is_answered_with_the_nearest(url: str, told: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        PgAddress.read(f"postgresql://{url}")
    assert f"there is no such option: {told}" in str(refused.value)
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "seconds"),
    [
        ("postgresql://ada@db/jobs", 10),
        ("postgresql://ada@db1,db2/jobs", 5),
        ("postgresql:///jobs?host=db1,db2,db3,db4,db5,db6,db7", 2),
        ("postgresql://ada@db1,db2/jobs?connect_timeout=7", None),
    ],
)
def test_a_call_that_waits_ten_seconds_may_try_all_servers(url: str, seconds: int | None) -> None:
    assert connect_options(PgAddress.read(url).conninfo).get("connect_timeout") == seconds


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ('FATAL:  password authentication failed for user "a"', "where its password comes from"),
        ("fe_sendauth: no password supplied", "where its password comes from"),
        ("Connection refused", "Check that the server runs"),
        ("failed to resolve host 'db': [Errno -2] Name or service not known", "Check the host"),
        ('invalid port number: "99999"', "Correct the port"),
        ('definition of service "mine" not found', "Check service="),
        ('service file "/etc/mine" not found', "Check service="),
        ('FATAL:  database "jobs&migrate=no" does not exist', "the first option in it follows a"),
        ("FATAL:  remaining connection slots are reserved", "Lower pool_size"),
        ('FATAL:  too many connections for role "oncue"', "Lower pool_size"),
        ("server does not support SSL, but SSL was required", "Check sslmode"),
    ],
)
def test_who_cannot_connect_is_told_the_next_step(said: str, advice: str) -> None:
    error = OperationalError(f"connection failed: {said}")
    assert advice in str(translate(error, "db/jobs"))


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("permission denied for database jobs", "GRANT CREATE ON DATABASE …), or another role run"),
        ("permission denied for schema oncue", "Roles and rights, has the GRANT statements."),
        ("permission denied for table meta", "Roles and rights, has the GRANT statements."),
        ("permission denied for sequence n_seq", "Roles and rights, has the GRANT statements."),
        ("must be owner of table jobs", "the role that owns the tables run 'oncue migrate'."),
    ],
)
def test_who_lacks_a_right_is_told_the_next_step(said: str, advice: str) -> None:
    text = str(translate(InsufficientPrivilege(said), "db/jobs"))
    assert f"db/jobs: the role of the store lacks a right ({said}). " in text
    assert advice in text
