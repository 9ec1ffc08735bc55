"""What errors of PostgreSQL mean."""

from __future__ import annotations

import re

from psycopg import Error, OperationalError, errors
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from oncue.core.errors import StoreError, StoreUnavailable, StoreUnusable
from oncue.core.redaction import redacted

LOST_RACES = (
    errors.DeadlockDetected,
    errors.SerializationFailure,
    errors.LockNotAvailable,
    errors.IdleInTransactionSessionTimeout,
)
"""Nothing was done, and doing it again may succeed."""
ELSEWHERE = (errors.ReadOnlySqlTransaction, errors.CannotConnectNow, errors.AdminShutdown)
"""This server does not take writes: it is a standby now, or it stops."""


_MEANINGS: tuple[tuple[tuple[type[Exception], ...], type[StoreError], str], ...] = (
    (
        (PoolTimeout, TooManyRequests),
        StoreUnavailable,
        "no connection was free or could be made in time. Check that the server runs and takes "
        "connections; or raise pool_size in the URL of the store.",
    ),
    ((PoolClosed,), StoreUnavailable, "the store is closed."),
    (
        (errors.InsufficientPrivilege,),
        StoreUnusable,
        "the role of the store lacks a right ({said}).{advice}",
    ),
    (
        (errors.UndefinedTable, errors.InvalidSchemaName, errors.UndefinedColumn),
        StoreUnusable,
        "a table of the store is missing ({said}). 'oncue doctor' says what to do.",
    ),
    ((errors.DiskFull,), StoreUnavailable, "the disk of the server is full. Nothing was stored."),
    (
        (errors.QueryCanceled, errors.IdleInTransactionSessionTimeout),
        StoreUnavailable,
        "a statement took too long and was cancelled. It may have waited for a transaction that is "
        "still open; 'oncue doctor' names it.",
    ),
    (
        (errors.LockNotAvailable,),
        StoreUnavailable,
        "another transaction has locked a table of the store. Wait until it has ended, and try "
        "again.",
    ),
    (
        (errors.ReadOnlySqlTransaction,),
        StoreUnavailable,
        "the server takes no writes now: it is a standby, or set to read-only. 'oncue doctor' says "
        "which; name all servers in the URL, with target_session_attrs=read-write.",
    ),
    (
        (errors.DuplicatePreparedStatement, errors.InvalidSqlStatementName),
        StoreUnusable,
        "a pooler gives each transaction another connection, and the URL says listen=yes. Write "
        "listen=no, or leave it out.",
    ),
    ((OperationalError,), StoreUnavailable, "{said}.{advice}"),
)
"""Errors of the server, what they are here, and the text; the first that fits counts."""
_ADVICE = {
    "password authentication failed|no password supplied": "Check the role and where its password "
    "comes from (docs/postgresql.md, The password).",
    "Connection refused|could not translate host|timeout expired|No route|No such file": "Check "
    "that the server runs, and the host and port in the URL of the store.",
    "failed to resolve host": "Check the host in the URL of the store, and that this machine can "
    "resolve names.",
    "invalid port number": "Correct the port in the URL of the store.",
    'service ".*" not found|service file': "Check service= in the URL of the store, and the file "
    "that PGSERVICEFILE names, or ~/.pg_service.conf.",
    'database ".*" does not exist': "Create it, or correct the URL of the store; the first option "
    "in it follows a '?'.",
    'role ".*" does not exist': "Create it, or correct the URL of the store.",
    "denied for database": "Let its owner grant it (GRANT CREATE ON DATABASE …), or another role "
    "run 'oncue migrate', or the SQL that 'oncue migrate --dry-run' prints.",
    "denied for (schema|table|sequence)": "docs/postgresql.md, Roles and rights, has the GRANT "
    "statements.",
    "must be owner": "Let the role that owns the tables run 'oncue migrate'.",
    "connection slots|too many clients|too many connections": "Lower pool_size in the URL of the "
    "store, or raise max_connections of the server or the limit of the role.",
    "SSL|sslmode|certificate": "Check sslmode and the certificates in the URL of the store.",
}
"""By what the server says: such errors have no types of their own."""


def ends_connection(error: BaseException) -> bool:
    """Whether the server closes the connection with it. It may come after a commit that was made,
    before the answer to that; and before the connection is seen to be closed."""
    severity = error.diag.severity_nonlocalized if isinstance(error, Error) else None
    return severity in ("FATAL", "PANIC")


def translate(error: Exception, place: str) -> StoreError:
    """The error of ours, with the next step in its text. Texts of the server may quote what is
    stored, so only those about connections and tables are repeated."""
    if isinstance(error, StoreError):
        return error
    for kinds, ours, text in _MEANINGS:
        if isinstance(error, kinds):
            said = _first_line(error)
            return ours(f"{place}: {text.format(said=said, advice=_advice(said))}")
    return StoreError(f"{place}: {type(error).__name__}")


def _advice(said: str) -> str:
    return next((f" {todo}" for words, todo in _ADVICE.items() if re.search(words, said)), "")


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return redacted(lines[0]).rstrip(".") if lines else type(error).__name__
