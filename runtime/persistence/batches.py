"""Do a batch of queued jobs on a connection: writes with one commit for all, reads each in its own snapshot."""

from pathlib import Path

from loguru import logger
from sqlalchemy import Connection

from toolweave.errors import PersistenceError
from toolweave.runtime.persistence.connection_thread import Job
from toolweave.runtime.persistence.failures import explain
from toolweave.runtime.persistence.sqlite import driver_of, transaction


class TransactionLostError(PersistenceError):
    """SQLite rolled the whole transaction back while one of its jobs ran."""


def commit_group(path: Path, connection: Connection, jobs: list[Job]) -> None:
    """Run every job in its own savepoint and commit once; a failing commit fails all of them."""
    try:
        with transaction(connection):
            for job in jobs:
                _write_one(path, connection, job)
    except Exception as error:  # noqa: BLE001 - every caller gets it
        for job in jobs:
            if job.error is None:
                job.error = _lost(path, error)
    for job in jobs:
        if job.future is None and job.error is not None:
            logger.opt(exception=job.error).error("A queued write to {} failed and is not stored.", path)


def read_each(path: Path, connection: Connection, jobs: list[Job]) -> None:
    """Run every job in a read transaction of its own, so that all it reads is of one moment."""
    driver = driver_of(connection)
    for job in jobs:
        try:
            driver.execute("BEGIN")
            try:
                job.result = job.work(connection)
            finally:
                if driver.in_transaction:
                    driver.execute("ROLLBACK")
        except Exception as error:  # noqa: BLE001 - the caller gets it
            job.error = explain(path, error)


def _write_one(path: Path, connection: Connection, job: Job) -> None:
    driver = driver_of(connection)
    driver.execute("SAVEPOINT job")
    try:
        job.result = job.work(connection)
    except Exception as error:
        job.error = explain(path, error)
        if not driver.in_transaction:
            raise TransactionLostError(str(job.error)) from error
        driver.execute("ROLLBACK TO job")
    driver.execute("RELEASE job")


def _lost(path: Path, error: Exception) -> Exception:
    """Give each caller an error of its own: two tasks must not share one traceback."""
    explained = explain(path, error)
    lost = PersistenceError(f"Nothing of this write is stored. {explained}")
    lost.__cause__ = explained
    return lost
