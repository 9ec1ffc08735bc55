"""What is missing before a store can be used by this version: found first, then done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from oncue.core.errors import InvalidInput
from oncue.stores import open_store


class MigrationStep(NamedTuple):
    text: str
    """What it does: "create …"."""
    apply: Callable[[], object]
    """To be called in the order of the steps. It can be repeated."""
    sql: str = ""
    """What it runs, where that is SQL."""


class Migration(NamedTuple):
    place: str
    """The file or the table."""
    schema: int
    """The version that it has after the steps."""
    steps: list[MigrationStep]
    """None: it is as it should be."""
    in_sql: bool = False
    """Whether every step can be done by its SQL."""
    known: int | None = None
    """The version that this program knows, if the store has a later one that it can use."""


@contextmanager
def migration(url: str, *, recovery: bool = False) -> Iterator[Migration]:
    """What is to be done to the store of a URL. `recovery`: also turn on point-in-time recovery,
    which DynamoDB has."""
    scheme = url.partition(":")[0]
    if scheme == "dynamodb":
        yield from _of_table(url, recovery)
    elif scheme in ("postgresql", "postgres") and not recovery:
        yield from _of_database(url)
    elif recovery:
        raise InvalidInput("only a DynamoDB table has it.", "/point_in_time_recovery")
    elif scheme == "memory":
        raise InvalidInput("memory: keeps nothing, so there is nothing to migrate.", "/store")
    elif url.startswith("sqlite:///") and url != "sqlite:///":
        yield _of_file(url)
    else:
        open_store(url)  # says what is wrong with it


def _of_file(url: str) -> Migration:
    """Every program that opens the file does the same."""
    from oncue.stores.sqlite.connection import stored_schema
    from oncue.stores.sqlite.statements import migrations

    path, newest = Path(url.removeprefix("sqlite:///")), len(migrations())
    version = stored_schema(path)
    if version == newest:
        return Migration(str(path), newest, [])
    begin = f"create {path}" if version is None else f"migrate {path} from schema {version}"

    def apply() -> None:
        open_store(url).close()

    to = f"with schema {newest}" if version is None else f"to {newest}"
    return Migration(str(path), newest, [MigrationStep(f"{begin} {to}", apply)])


def _of_database(url: str) -> Iterator[Migration]:
    from oncue.stores.postgresql.address import PgAddress

    address = PgAddress.read(url)  # before the import of what needs psycopg
    from oncue.stores.postgresql import schema
    from oncue.stores.postgresql.database import PgDatabase

    with closing(PgDatabase(address)) as db:
        text, sql, version = schema.missing(db)
        steps = [MigrationStep(text, lambda: schema.migrate(db), sql)] if sql else []
        place, wanted = f"{address.shown} ({address.schema})", schema.wanted_schema(db)
        known = wanted if version > wanted else None
        yield Migration(place, version, steps, in_sql=True, known=known)


def lacks_tables(url: str) -> bool:
    """Whether the database of a PostgreSQL store has none of its tables."""
    from oncue.stores.postgresql.address import PgAddress

    address = PgAddress.read(url)  # before the import of what needs psycopg
    from oncue.stores.postgresql import schema
    from oncue.stores.postgresql.database import PgDatabase

    with closing(PgDatabase(address)) as db:
        return schema.is_missing(db)


def _of_table(url: str, recovery: bool) -> Iterator[Migration]:
    from oncue.stores.dynamodb.address import TableAddress

    address = TableAddress.read(url)  # before the import of what needs boto3
    from oncue.stores.dynamodb import creation, schema
    from oncue.stores.dynamodb.table import Table

    with closing(Table(address.table, address.connect)) as table:
        found = creation.steps(table, recovery=recovery)
        yield Migration(f"DynamoDB table {table.name}", schema.SCHEMA, found)
