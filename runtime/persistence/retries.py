"""Execute database work again after failures that a PostgreSQL server causes that restarts or fails over."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import psycopg
from psycopg_pool import PoolTimeout
from sqlalchemy.exc import DBAPIError

from toolweave.errors import PersistenceError

T = TypeVar("T")
P = ParamSpec("P")
# How long a request waits for the server to come back after a restart or a failover.
RETRY_FOR_S = 30.0
_FIRST_DELAY_S, _MAX_DELAY_S = 0.02, 1.0
_RETRYABLE = (
    psycopg.OperationalError,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
    PoolTimeout,
)
_NOT_RETRYABLE = (
    psycopg.errors.DiskFull,
    psycopg.errors.QueryCanceled,
    psycopg.errors.InvalidPassword,
    psycopg.errors.LockNotAvailable,
)


async def retry_while_away(execute: Callable[[], Awaitable[T]], failures: tuple[type[Exception], ...]) -> T:
    """Execute work again after `failures` that a server causes that restarts, until it had time to come back."""
    deadline = time.monotonic() + RETRY_FOR_S
    delay = _FIRST_DELAY_S
    while True:
        try:
            return await execute()
        except failures as error:
            cause = driver_error(error)
            is_temporary = isinstance(cause, _RETRYABLE) and not isinstance(cause, _NOT_RETRYABLE)
            if not is_temporary or time.monotonic() > deadline:
                raise
            await asyncio.sleep(delay)
            delay = min(delay * 2, _MAX_DELAY_S)


def repeatable(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Decorate a method that may be executed twice: execute it again after a lost connection."""

    @wraps(method)
    async def execute(*arguments: P.args, **named: P.kwargs) -> T:
        return await retry_while_away(lambda: method(*arguments, **named), (PersistenceError,))

    return execute


def driver_error(error: BaseException) -> BaseException:
    """Return the driver's error inside an error of SQLAlchemy's or of ours."""
    if isinstance(error, PersistenceError):
        return error.__cause__ or error
    return error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
