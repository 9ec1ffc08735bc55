"""Jobs in transactions that SQLAlchemy, Django and asyncio run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from oncue import IdTaken, InvalidInput, NotSupported, Scheduler
from oncue.aio import AsyncScheduler
from tests.stores.postgresql.conftest import Shop


def sqlalchemy_url(shop: Shop) -> str:
    return shop.url.replace("postgresql://", "postgresql+psycopg://")


# -- SQLAlchemy ------------------------------------------------------------------------------------


def test_a_connection_of_sqlalchemy_commits_and_rolls_back(shop: Shop) -> None:
    engine = create_engine(sqlalchemy_url(shop))
    with engine.connect() as connection:
        shop.cue.schedule(1, queue="mail", connection=connection)
        connection.rollback()
        assert shop.waiting("mail") == 0
        shop.cue.schedule(2, queue="mail", connection=connection)  # and nothing else
        connection.commit()
        assert shop.waiting("mail") == 1
    with engine.begin() as connection:
        connection.execute(text(shop.insert))
        shop.cue.schedule_many([{}, {}], queue="mail", connection=connection)
        with connection.begin_nested() as savepoint:
            shop.cue.schedule(3, queue="mail", connection=connection)
            savepoint.rollback()
    assert (shop.ordered(), shop.waiting("mail")) == (1, 3)
    engine.dispose()


def test_a_connection_of_sqlalchemy_that_commits_by_itself_stores_at_once(shop: Shop) -> None:
    engine = create_engine(sqlalchemy_url(shop), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        shop.cue.schedule(1, queue="mail", connection=connection)
        assert shop.waiting("mail") == 1
    engine.dispose()


@pytest.mark.parametrize("scoped", [False, True], ids=["session", "scoped_session"])
def test_a_session_of_sqlalchemy_commits_and_rolls_back(shop: Shop, scoped: bool) -> None:
    engine = create_engine(sqlalchemy_url(shop))
    session: Any = scoped_session(sessionmaker(engine)) if scoped else Session(engine)
    shop.cue.schedule(1, queue="mail", connection=session)
    session.rollback()
    assert shop.waiting("mail") == 0
    shop.cue.schedule({"n": 1}, queue="mail", id="chosen", connection=session)
    with pytest.raises(IdTaken):
        shop.cue.schedule({"n": 2}, queue="mail", id="chosen", connection=session)
    session.execute(text(shop.insert))
    session.commit()
    session.close()
    assert (shop.ordered(), shop.waiting("mail")) == (1, 1)
    engine.dispose()


def test_sqlalchemy_on_another_driver_is_refused_by_name(shop: Shop) -> None:
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        refused = r"sqlalchemy\S*Connection on sqlite3.Connection cannot be used here"
        with pytest.raises(InvalidInput, match=refused):
            shop.cue.schedule(1, connection=connection)
    engine.dispose()


# -- Django ----------------------------------------------------------------------------------------


@contextmanager
def django_on(shop: Shop) -> Iterator[Any]:
    import django
    from django.conf import settings

    place = urlsplit(shop.url)
    known = {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": place.hostname,
        "PORT": place.port,
        "USER": place.username,
        "NAME": place.path.strip("/"),
    }
    if not settings.configured:
        settings.configure(DATABASES={"default": known})
        django.setup()
    from django.db import connection, transaction

    try:
        yield connection, transaction
    finally:
        connection.close()


def test_the_connection_of_django_commits_and_rolls_back(shop: Shop) -> None:
    with django_on(shop) as (connection, transaction):
        with transaction.atomic():
            shop.cue.schedule(1, queue="mail", connection=connection)
            transaction.set_rollback(True)
        assert shop.waiting("mail") == 0
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute(shop.insert)
            shop.cue.schedule(2, queue="mail", key="k", connection=connection)
            shop.cue.schedule(3, queue="mail", key="k", connection=connection)
            with pytest.raises(ZeroDivisionError), transaction.atomic():
                shop.cue.schedule(4, queue="mail", connection=connection)
                raise ZeroDivisionError
            assert shop.waiting("mail") == 0
        assert (shop.ordered(), shop.waiting("mail")) == (1, 1)
        shop.cue.schedule(5, queue="mail", connection=connection)  # outside: at once
        assert shop.waiting("mail") == 2


# -- asyncio ---------------------------------------------------------------------------------------


def test_a_connection_of_psycopg_for_asyncio_commits_and_rolls_back(shop: Shop) -> None:
    async def ask() -> None:
        cue = AsyncScheduler(shop.cue)
        async with await psycopg.AsyncConnection.connect(shop.url) as connection:
            await cue.schedule(1, queue="mail", connection=connection)
            await connection.rollback()
            assert shop.waiting("mail") == 0
            await connection.execute(shop.insert.encode())
            job = await cue.schedule(2, queue="mail", key="k", connection=connection)
            same = await cue.schedule(3, queue="mail", key="k", connection=connection)
            assert same.id == job.id
            many = ({"payload": n} for n in range(10_000))
            tally = await cue.schedule_many(many, queue="many", connection=connection)
            assert tally.accepted == 10_000
            with pytest.raises(InvalidInput, match="item 1"):
                await cue.schedule_many([{"priority": 11}], connection=connection)
            assert shop.waiting("mail") == 0
        async with await psycopg.AsyncConnection.connect(shop.url, autocommit=True) as connection:
            await cue.schedule(4, queue="mail", connection=connection)
            assert shop.waiting("mail") == 2
        assert (await cue.schedule_many([{}], queue="mail")).accepted == 1

    asyncio.run(ask())
    assert (shop.ordered(), shop.waiting("mail"), shop.waiting("many")) == (1, 3, 10_000)


def test_connections_and_sessions_of_sqlalchemy_for_asyncio_commit_and_roll_back(
    shop: Shop,
) -> None:
    async def ask() -> None:
        cue, engine = AsyncScheduler(shop.cue), create_async_engine(sqlalchemy_url(shop))
        async with engine.connect() as connection:
            await cue.schedule(1, queue="mail", connection=connection)
            await connection.rollback()
            await cue.schedule(2, queue="mail", connection=connection)
            await connection.commit()
        assert shop.waiting("mail") == 1
        async with AsyncSession(engine) as session:
            await cue.schedule(3, queue="mail", connection=session)
            await session.rollback()
            await session.execute(text(shop.insert))
            await cue.schedule(4, queue="mail", connection=session)
            await session.commit()
        await engine.dispose()

    asyncio.run(ask())
    assert (shop.ordered(), shop.waiting("mail")) == (1, 2)


def test_each_scheduler_refuses_the_connections_of_the_other_by_name(shop: Shop) -> None:
    async def ask() -> None:
        cue = AsyncScheduler(shop.cue)
        refused = pytest.raises(InvalidInput, match="Give an AsyncConnection of psycopg 3")
        with shop.connect() as waiting, refused:
            await cue.schedule(1, connection=waiting)
        async with await psycopg.AsyncConnection.connect(shop.url) as connection:
            with pytest.raises(InvalidInput, match="in a handler complete_async"):
                shop.cue.schedule(1, connection=connection)
        engine = create_async_engine(sqlalchemy_url(shop))
        async with AsyncSession(engine) as session:
            with pytest.raises(InvalidInput, match="Use AsyncScheduler"):
                shop.cue.schedule(1, connection=session)
        await engine.dispose()

    asyncio.run(ask())


def test_other_stores_refuse_connections_for_asyncio() -> None:
    async def ask(cue: AsyncScheduler) -> None:
        with pytest.raises(NotSupported, match="only a PostgreSQL store"):
            await cue.schedule(1, connection=object())
        with pytest.raises(NotSupported, match="only a PostgreSQL store"):
            await cue.schedule_many([{}], connection=object())

    with Scheduler("memory:") as cue:
        asyncio.run(ask(AsyncScheduler(cue)))
