"""The program in which the snippets of docs/postgresql.md run: they replace `# SYNC` and `# ASYNC`.
Its argument is the URL of an empty database."""
# ruff: noqa: F401 (the snippets use the rest)

import asyncio
import sys
from urllib.parse import urlsplit

import django.conf
import django.db
import psycopg
from django.db import models, transaction
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from oncue import Scheduler
from oncue.aio import AsyncScheduler

SHOP = sys.argv[1]
parts = urlsplit(SHOP)
database = {"NAME": parts.path[1:], "HOST": parts.hostname, "PORT": parts.port}
login = {"ENGINE": "django.db.backends.postgresql", "USER": parts.username}
django.conf.settings.configure(DATABASES={"default": {**database, **login}})
django.setup()
engine = create_engine(SHOP.replace("postgresql:", "postgresql+psycopg:"))


class Base(DeclarativeBase):
    """Of the tables that SQLAlchemy knows."""


class OrderOfAlchemy(Base):
    __tablename__ = "orders"
    n: Mapped[int] = mapped_column(primary_key=True)


class OrderOfDjango(models.Model):  # type: ignore[misc]
    n = models.IntegerField(primary_key=True)

    class Meta:
        app_label = "shop"
        db_table = "orders"


class Order(OrderOfAlchemy):
    """Of both libraries, under one name."""

    objects = OrderOfDjango.objects


with psycopg.connect(SHOP) as connection:
    connection.execute("CREATE TABLE orders (n int)")
    connection.execute("CREATE TABLE accounts (balance int)")
    connection.execute("INSERT INTO accounts VALUES (100)")

cue = Scheduler(SHOP)
acue = AsyncScheduler(cue)

# SYNC


async def main() -> None:
    # ASYNC
    assert cue.stats("mail")


asyncio.run(main())
cue.schedule({"amount": 7}, queue="payments")
cue.work(until_empty=True)
with psycopg.connect(SHOP) as connection:
    [[orders]] = connection.execute("SELECT count(*) FROM orders").fetchall()
    [[balance]] = connection.execute("SELECT balance FROM accounts").fetchall()
print(f"{orders} orders, {len(list(cue.jobs(queue='mail')))} jobs, balance {balance}")
cue.close()
engine.dispose()
django.db.connection.close()
