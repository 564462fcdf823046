"""Say why a database did not answer, in words for anybody: no driver's text, no address, no query (C-06)."""

import sqlite3
from typing import Any

import sqlalchemy as sa

from toolweave.servers.databases import postgresql
from toolweave.servers.error_codes import (
    ACCESS_DENIED,
    QUERY_REFUSED,
    QUERY_TIMEOUT,
    UNAVAILABLE,
    ErrorCode,
    ToolFailed,
)

_URL = "TOOLWEAVE_QUERY_DATABASE_URL"
_CHECK = f"Ask the operator to check that the database runs, and {_URL}; then try again."
_LATER = "Try again in a moment."


class Outdated(Exception):
    """The database does not know a table or column, or takes it for another type: it changed since it was looked at."""


_SQLITE: dict[str, tuple[ErrorCode, str, str | None]] = {
    "SQLITE_INTERRUPT": (QUERY_TIMEOUT, "The database took too long and was told to stop.", None),
    "SQLITE_BUSY": (UNAVAILABLE, "The database is busy: another program is writing to it.", _LATER),
    "SQLITE_LOCKED": (UNAVAILABLE, "The database is busy: another program is writing to it.", _LATER),
    "SQLITE_CANTOPEN": (UNAVAILABLE, "The database file cannot be opened.", _CHECK),
    "SQLITE_NOTADB": (UNAVAILABLE, "The database file is no SQLite database.", _CHECK),
    "SQLITE_CORRUPT": (UNAVAILABLE, "The database file is damaged.", _CHECK),
    "SQLITE_IOERR": (UNAVAILABLE, "The database file cannot be read: the disk reports an error.", _CHECK),
    "SQLITE_PERM": (UNAVAILABLE, "The database file may not be read.", _CHECK),
    "SQLITE_NOMEM": (QUERY_REFUSED, "The answer is too large for the database.", "Ask for less."),
    "SQLITE_TOOBIG": (QUERY_REFUSED, "The answer is too large for the database.", "Ask for less."),
}
# By SQLSTATE, or the class that it begins with.
_SQLSTATES: dict[str, tuple[ErrorCode, str, str | None]] = {
    "57014": (QUERY_TIMEOUT, "The database took too long and was told to stop.", None),
    "55P03": (QUERY_TIMEOUT, "The table is locked by somebody else for longer than a query may take.", _LATER),
    "25P03": (QUERY_TIMEOUT, "The answer was not taken in time.", None),
    "42501": (
        ACCESS_DENIED,
        "The database does not let us read this table, or one of these columns.",
        "Ask for other columns, or ask the operator to grant the reading of them.",
    ),
    "25006": (QUERY_REFUSED, "Reading the table would change the database.", "Use another table."),
    "28": (UNAVAILABLE, "The database does not let us in.", f"Ask the operator to check user and password in {_URL}."),
    "3D": (UNAVAILABLE, "There is no such database.", f"Ask the operator to check {_URL}."),
    "08": (UNAVAILABLE, "The database cannot be reached.", _CHECK),
    "57": (UNAVAILABLE, "The database is being stopped or started.", _LATER),
    "53": (UNAVAILABLE, "The database has no room for more connections or work.", _LATER),
    "22": (QUERY_REFUSED, "The database cannot compare these columns with these values.", None),
}
_OUTDATED = ("42P01", "42703", "42883", "42704", "3F000", "0A000")


def told(error: sa.exc.SQLAlchemyError | OSError) -> ToolFailed:
    """Translate a failure.

    Raises:
        Outdated: the query may be right for the database as it is now.
    """
    if isinstance(error, sa.exc.TimeoutError):
        return ToolFailed(UNAVAILABLE, "The database is busy: too many queries wait for it.", _LATER)
    cause: Any = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        return _of_sqlite(cause)
    state = getattr(cause, "sqlstate", "")
    if isinstance(state, str) and state:
        return _of_state(state)
    if state is None:
        # PostgreSQL names the reason of everything but what it says before it lets anybody in.
        return ToolFailed(UNAVAILABLE, f"The database {postgresql.reason(cause)}.", _CHECK)
    if isinstance(error, sa.exc.ProgrammingError | sa.exc.DataError | sa.exc.NotSupportedError):
        return ToolFailed(QUERY_REFUSED, "The database does not take the query.")
    return ToolFailed(UNAVAILABLE, "The database cannot be reached, or does not let us in.", _CHECK)


def _of_sqlite(cause: sqlite3.Error) -> ToolFailed:
    # Extended codes such as SQLITE_IOERR_READ carry the primary one as their beginning.
    name = "_".join(getattr(cause, "sqlite_errorname", "SQLITE_ERROR").split("_")[:2])
    if name in _SQLITE:
        return ToolFailed(*_SQLITE[name])
    if name in ("SQLITE_ERROR", "SQLITE_SCHEMA"):
        raise Outdated from cause
    return ToolFailed(QUERY_REFUSED, "The database does not take the query.")


def _of_state(state: str) -> ToolFailed:
    if state in _OUTDATED:
        raise Outdated
    found = _SQLSTATES.get(state) or _SQLSTATES.get(state[:2])
    return ToolFailed(*found) if found else ToolFailed(QUERY_REFUSED, "The database does not take the query.")
