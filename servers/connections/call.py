"""Execute one tool call and turn every failure into a result: an exception would crash the graph that called.

A call acquires one permit of the breaker and makes up to four attempts. Each attempt is a `ServerConnection.call` with
its own deadline (D-5, D-6).
"""

import asyncio
import time
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from loguru import logger
from pydantic import ValidationError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_chain, wait_fixed

from toolweave import errors
from toolweave.servers.connections import results
from toolweave.servers.connections.breaker import Permit
from toolweave.servers.connections.connection import ServerConnection
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.observability import CallObserver, CallRecord, log_call
from toolweave.servers.connections.redaction import describe_error
from toolweave.servers.connections.registry import is_included
from toolweave.servers.connections.sessions import loading

if TYPE_CHECKING:
    from mcp.types import CallToolResult

MAX_TOOL_NAME_CHARS = 128


async def execute_call(
    connection: ServerConnection,
    tool: str,
    arguments: dict[str, Any],
    context: CallContext,
    observers: Iterable[CallObserver] = (),
    *,
    refusal: errors.CallRefused | None = None,
) -> "CallToolResult":
    """Call a tool, pass its record to the observers, and return its result.

    A failed call returns a result with `isError`, a text for the model and the kind of failure in `_meta`; the cause is
    written to the log only. With a `refusal`, the call fails before its first attempt.
    """
    record = CallRecord(connection.config.name, tool, arguments, context, connection.redaction)
    started, permit = time.perf_counter(), None
    try:
        if refusal is not None:
            raise refusal
        permit = await _acquire_permit(connection, tool, arguments)
        record.attempts = 1
        try:
            # Nearly every call needs no retry; tenacity would add 40 µs to each.
            result = await connection.call(tool, arguments, context)
        except errors.ServerUnavailable as failure:
            if not _is_retryable(connection, tool, failure):
                raise
            async for attempt in _retry_attempts(connection, tool):
                with attempt:
                    if attempt.retry_state.attempt_number == 1:
                        raise
                    record.attempts += 1
                    result = await connection.call(tool, arguments, context, is_retry=True)
        permit.record_outcome("success")
        record.result = _redact_result(connection, tool, result)
        record.outcome = "tool_error" if result.isError else "ok"
    except errors.ToolError as failure:
        _record_failure(record, failure, connection, permit)
        kind = "transport" if record.outcome == "refused" else record.outcome
        record.result = await loading.error_result(str(failure), kind)
    finally:
        if permit is not None:
            permit.record_outcome("cancelled")
        record.duration_ms = round((time.perf_counter() - started) * 1000, 2)
        for observe in (log_call, *observers):
            observe(record)
    return record.result


async def _acquire_permit(connection: ServerConnection, tool: str, arguments: dict[str, Any]) -> Permit:
    """Return the breaker's permit for a call that the server's filters and the tool's schema allow.

    Raises:
        CallRefused: the tool is excluded, or the breaker refuses calls.
        InvalidArguments: the arguments do not match the tool's schema.
    """
    server = connection.config.name
    # Callers may name any tool, not only those that the plane lists.
    if not is_included(connection.config, tool):
        raise results.tool_excluded(server, tool, name=tool[:MAX_TOOL_NAME_CHARS])
    spec = connection.find_tool(tool)
    if spec and (problems := await spec.validation_errors("arguments", arguments)):
        raise errors.InvalidArguments(results.arguments_error(tool, problems), server=server, tool=tool, executed="no")
    permit = connection.breaker.acquire_permit()
    if permit is None:
        raise results.temporarily_unavailable(server, tool)
    return permit


def _is_retryable(connection: ServerConnection, tool: str, failure: BaseException) -> bool:
    """Return whether another attempt is safe: the failed one was not executed, or the tool is safe to repeat.

    A call that this client or the server refused, or that passed its deadline, is never repeated.
    """
    if not isinstance(failure, errors.ServerUnavailable) or isinstance(
        failure, errors.CallRefused | errors.RequestDeclined
    ):
        return False
    spec = connection.find_tool(tool)
    return failure.executed == "no" or (spec is not None and spec.is_safe_to_repeat)


def _retry_attempts(connection: ServerConnection, tool: str) -> AsyncRetrying:
    """Return the retry policy of one call (D-5); its first attempt has to raise the error of the call that failed."""
    timing, server = connection.timing, connection.config.name
    # Three retries are meant for failures that occur fast. Without this limit, a server that closes the connection just
    # before each deadline would block a caller for four deadlines.
    deadline = timing.clock() + sum(timing.retry_delays_s) + connection.config.timeout_s
    is_last_attempt = stop_after_attempt(1 + len(timing.retry_delays_s))

    def log_retry(state: RetryCallState) -> None:
        logger.bind(server=server, tool=tool, attempt=state.attempt_number).info(
            "MCP call {}/{}: attempt {} failed, next in {:g} s",
            server,
            tool,
            state.attempt_number,
            state.upcoming_sleep,
        )

    def raise_exhausted(state: RetryCallState) -> NoReturn:
        last = state.outcome.exception() if state.outcome else None
        raise results.retries_exhausted(server, tool, attempts=state.attempt_number) from last

    return AsyncRetrying(
        retry=retry_if_exception(partial(_is_retryable, connection, tool)),
        stop=lambda state: is_last_attempt(state) or timing.clock() >= deadline,
        wait=wait_chain(*map(wait_fixed, timing.retry_delays_s)),
        sleep=partial(_sleep_unless_closing, connection),
        before_sleep=log_retry,
        retry_error_callback=raise_exhausted,
    )


async def _sleep_unless_closing(connection: ServerConnection, seconds: float) -> None:
    """Sleep for `seconds`, or until the connection starts to close."""
    tasks = {asyncio.ensure_future(connection.timing.sleep(seconds)), asyncio.ensure_future(connection.closing.wait())}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _redact_result(connection: ServerConnection, tool: str, result: "CallToolResult") -> "CallToolResult":
    try:
        return connection.redaction.redact_message(result)
    except ValidationError as error:
        raise results.bad_response(connection.config.name, tool) from error


def _record_failure(
    record: CallRecord, failure: errors.ToolError, connection: ServerConnection, permit: Permit | None
) -> None:
    """Write the failure into the record, and into the permit if the server caused it."""
    record.outcome, record.reason = failure.outcome, _failure_reason(failure, connection)
    if record.outcome == "refused" and record.attempts:
        record.attempts -= 1  # a refused attempt was never sent
        record.outcome = "transport" if record.attempts else "refused"
    # Arguments that were not sent, and a connection that this process closes, are no failures of the server.
    if permit is not None and connection.is_active and not isinstance(failure, errors.InvalidArguments):
        permit.record_outcome("exhausted" if isinstance(failure, errors.RetriesExhausted) else "failure", record.reason)


def _failure_reason(failure: errors.ToolError, connection: ServerConnection) -> str:
    """Return the root cause of a failure for the log, without secrets."""
    if isinstance(failure, errors.InvalidArguments):
        return "its arguments do not fit"  # the failure's own text quotes them
    cause: BaseException = failure
    while cause.__cause__ is not None:
        cause = cause.__cause__
    # At a deadline, asyncio raises CancelledError inside the call first.
    is_own_error = isinstance(cause, errors.ToolError | TimeoutError | asyncio.CancelledError)
    return connection.redaction.sanitize(str(failure) if is_own_error else describe_error(cause))
