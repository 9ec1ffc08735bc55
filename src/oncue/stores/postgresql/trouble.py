"""What errors of PostgreSQL mean."""

from __future__ import annotations

from psycopg import OperationalError, errors
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


def translate(error: Exception, place: str) -> StoreError:
    """The error of ours, with the next step in its text. Texts of the server may quote what is
    stored, so only those about connections and tables are repeated."""
    match error:
        case StoreError():
            return error
        case PoolTimeout() | TooManyRequests():
            return StoreUnavailable(
                f"{place}: no connection was free or could be made in time. Check that the server "
                "runs and takes connections; or raise pool_size in the URL of the store."
            )
        case PoolClosed():
            return StoreUnavailable(f"{place}: the store is closed.")
        case errors.InsufficientPrivilege():
            return StoreUnusable(
                f"{place}: the role of the store lacks a right ({_first_line(error)}). Grant it; "
                "to create the tables, let another role run 'oncue migrate', or the SQL that "
                "'oncue migrate --dry-run' prints."
            )
        case errors.UndefinedTable() | errors.InvalidSchemaName() | errors.UndefinedColumn():
            return StoreUnusable(
                f"{place}: a table of the store is missing ({_first_line(error)}). Run "
                "'oncue migrate', or restore a backup."
            )
        case errors.DiskFull():
            return StoreUnavailable(f"{place}: the disk of the server is full. Nothing was stored.")
        case errors.QueryCanceled() | errors.IdleInTransactionSessionTimeout():
            return StoreUnavailable(f"{place}: a statement took too long and was cancelled.")
        case errors.LockNotAvailable():
            return StoreUnavailable(
                f"{place}: another transaction has locked a table of the store. Wait until it has "
                "ended, and try again."
            )
        case errors.ReadOnlySqlTransaction():
            return StoreUnavailable(
                f"{place}: the server takes no writes now: it is a standby, or set to read-only."
            )
        case errors.TooManyConnections():
            return StoreUnavailable(
                f"{place}: the server has no connection left. Lower pool_size in the URL of the "
                "store, or raise max_connections of the server."
            )
        case errors.InvalidPassword() | errors.InvalidAuthorizationSpecification():
            return StoreUnusable(f"{place}: the server refused the role or its password.")
        case OperationalError():
            return StoreUnavailable(f"{place}: {_first_line(error)}.")
    return StoreError(f"{place}: {type(error).__name__}")


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return redacted(lines[0]).rstrip(".") if lines else type(error).__name__
