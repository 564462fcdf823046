"""Provide the PostgreSQL specifics: connection arguments, the statements that begin a transaction, failure reasons."""

import hashlib
import re
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

DRIVER = "postgresql+psycopg"

# For a whole transaction, whatever the number of its statements; the cleanup after it may take 10 s more.
TRANSACTION_TIMEOUT_S = 30.0

# The server cancels a statement after this time, and ends the transaction of a client that is suspended in it.
_STATEMENT_TIMEOUT_S = 10.0
_CONNECT_TIMEOUT_S = 3

_BUSY = "is busy: another program is writing to it"
_CONNECTION_LOST = "went away: its server was stopped or the connection broke"
_TOO_MANY_CONNECTIONS = "accepts no more connections: its server has reached its limit"
_ACCESS_REFUSED = "refuses this user: check user name, password and the server's pg_hba.conf"
_STARTING = "is starting or stopping"

# SQLSTATE, or the two characters of its class.
_REASON_BY_SQLSTATE = {
    **dict.fromkeys(("08", "57P01", "57P02", "57P05"), _CONNECTION_LOST),
    "25006": "is read-only",
    "25P03": "ended a transaction that was idle too long",
    "28": _ACCESS_REFUSED,
    "3D000": "does not exist: create it on its server",
    "3F000": "has no schema for its tables: check the search_path of its user",
    **dict.fromkeys(("40001", "40P01", "55P03"), _BUSY),
    "42501": "denies this user a permission that is needed: see docs/postgresql.md for the grants",
    "53100": "cannot grow: the disk is full",
    "53200": "is out of memory",
    "53300": _TOO_MANY_CONNECTIONS,
    "57014": "took too long and was stopped",
    "57P03": _STARTING,
    "58030": "cannot be read or written: the disk reports an error",
    **dict.fromkeys(("XX001", "XX002"), "is damaged"),
}

# A client that the server refuses gets no SQLSTATE, only a text.
_REASON_BY_MESSAGE = (
    (r"authentication failed|no password supplied|pg_hba\.conf|role .* (not exist|not permitted)", _ACCESS_REFUSED),
    (r"database .* does not exist", _REASON_BY_SQLSTATE["3D000"]),
    (r"too many (clients|connections)|connection slots", _TOO_MANY_CONNECTIONS),
    (r"starting up|shutting down|recovery", _STARTING),
    (r"permission denied for database", _REASON_BY_SQLSTATE["42501"]),
)
_UNREACHABLE = "cannot be reached: check host, port and options of its URL, and that its server runs"
UNKNOWN_REASON = "cannot be used"


def connect_args(url: sa.URL, name: str) -> dict[str, Any]:
    """Return psycopg's connection arguments; options in the URL replace the timeouts.

    Statements are not prepared, so that the connection may pass through a pooler.
    """
    timeouts = {
        "connect_timeout": _CONNECT_TIMEOUT_S,
        "tcp_user_timeout": _CONNECT_TIMEOUT_S * 1000,
        "keepalives_idle": 30,
        "keepalives_interval": 5,
        "keepalives_count": 3,
    }
    fixed = {"client_encoding": "utf8", "fallback_application_name": f"toolweave {name}", "prepare_threshold": None}
    return {option: value for option, value in timeouts.items() if option not in url.query} | fixed


def begin_statements(lock_name: str, busy_timeout_s: float) -> dict[str, str]:
    """Return the first statements of a transaction, by the name of its mode in SQLite.

    A reader (DEFERRED) sees one snapshot of the database. Writers (IMMEDIATE) with the same `lock_name` run one at a
    time in all processes, so that the rows they have read do not change until they commit, and ids become visible in
    order. The timeouts apply to the transaction only, because a pooler may pass the connection on to other clients.
    """
    number = int.from_bytes(hashlib.sha256(lock_name.encode()).digest()[:8], signed=True)
    limits = (
        f"SET LOCAL lock_timeout = {_milliseconds(busy_timeout_s)};"
        f"SET LOCAL statement_timeout = {_milliseconds(_STATEMENT_TIMEOUT_S)};"
        f"SET LOCAL idle_in_transaction_session_timeout = {_milliseconds(_STATEMENT_TIMEOUT_S)}"
    )
    return {
        "DEFERRED": f"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; {limits}",
        "IMMEDIATE": f"SET TRANSACTION ISOLATION LEVEL READ COMMITTED; {limits};SELECT pg_advisory_xact_lock({number})",
    }


async def encoding_problem(connection: AsyncConnection) -> str | None:
    """Return a problem if the database's encoding cannot store all Unicode text, else None."""
    encoding = await connection.scalar(sa.text("SHOW server_encoding"))
    return None if encoding == "UTF8" else f"has the encoding {encoding}: create it with ENCODING 'UTF8'"


def failure_reason(error: BaseException | None) -> str:
    """Return why the database failed, without any text from the driver."""
    state = getattr(error, "sqlstate", None)
    if state:
        return _REASON_BY_SQLSTATE.get(state) or _REASON_BY_SQLSTATE.get(state[:2], UNKNOWN_REASON)
    message = str(error)
    if "connection" in message and ("closed" in message or "lost" in message):
        return _CONNECTION_LOST
    return next((words for pattern, words in _REASON_BY_MESSAGE if re.search(pattern, message)), _UNREACHABLE)


def _milliseconds(seconds: float) -> int:
    # 0 would disable the timeout.
    return max(1, int(seconds * 1000))
