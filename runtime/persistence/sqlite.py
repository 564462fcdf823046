"""Open connections to a SQLite file: write-ahead log, one writer, transactions begun by hand."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from sqlalchemy import Connection, NullPool, create_engine

from toolweave.private_files import make_file
from toolweave.runtime.persistence.containment import json_contains
from toolweave.runtime.persistence.failures import explained

BUSY_TIMEOUT_S = 5.0
# NORMAL with a write-ahead log: a killed process loses nothing, a power cut at most the last moments, never the file.
PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON")


def connect_writer(path: Path, prepare: Callable[[Connection], None] | None) -> Connection:
    """Open the writing connection, creating the file for its owner only, and run `prepare` in one transaction.

    Raises:
        PersistenceError: the file cannot be opened, is damaged, or is not writable.
    """
    with explained(path):
        try:
            make_file(path)
        except OSError as error:
            raise sqlite3.OperationalError("unable to open database file") from error
        connection = _connect(path)
        try:
            if prepare is not None:
                with transaction(connection):
                    prepare(connection)
        except BaseException:
            disconnect(connection)
            raise
    return connection


def connect_reader(path: Path) -> Connection:
    """Open a connection that refuses to write."""
    with explained(path):
        connection = _connect(path)
        driver_of(connection).execute("PRAGMA query_only=ON")
    return connection


def disconnect(connection: Connection) -> None:
    """Close a connection and its engine."""
    connection.close()
    connection.engine.dispose()


def driver_of(connection: Connection) -> sqlite3.Connection:
    """Give the driver's connection under a SQLAlchemy connection."""
    return cast("sqlite3.Connection", connection.connection.driver_connection)


@contextmanager
def transaction(connection: Connection) -> Iterator[sqlite3.Connection]:
    """Hold the write lock; commit at the end, or roll everything back."""
    driver = driver_of(connection)
    driver.execute("BEGIN IMMEDIATE")
    try:
        yield driver
        driver.execute("COMMIT")
    finally:
        # SQLite has ended the transaction by itself after some failures (a full disk).
        if driver.in_transaction:
            driver.execute("ROLLBACK")


def _connect(path: Path) -> Connection:
    def create() -> sqlite3.Connection:
        driver = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, cached_statements=256)
        try:
            for pragma in PRAGMAS:
                driver.execute(f"PRAGMA {pragma}")
        except sqlite3.Error:
            driver.close()
            raise
        driver.create_function("json_contains", 2, json_contains, deterministic=True)
        return driver

    # AUTOCOMMIT leaves BEGIN and COMMIT to us.
    engine = create_engine("sqlite://", creator=create, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    return engine.connect()
