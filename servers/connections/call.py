"""Carry one tool call from a caller to its server and turn every failure into a result, in this one place.

A call gets one permit of the breaker and makes up to four attempts, each a `ServerConnection.call` with a deadline of
its own (D-5, D-6). An exception would crash the graph that called.
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
from toolweave.servers.connections.breaker import Permit
from toolweave.servers.connections.connection import ServerConnection
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.observation import CallObserver, CallRecord, log_line
from toolweave.servers.connections.redaction import in_brief
from toolweave.servers.connections.registry import is_selected
from toolweave.servers.connections.results import exhausted, left_out, misfit_text, not_understood, refused
from toolweave.servers.connections.sessions import loading

if TYPE_CHECKING:
    from mcp.types import CallToolResult

LONGEST_NAME = 128


async def carry_out(
    connection: ServerConnection,
    tool: str,
    arguments: dict[str, Any],
    context: CallContext,
    observers: Iterable[CallObserver] = (),
    *,
    refusal: errors.CallRefused | None = None,
) -> "CallToolResult":
    """Call a tool and return its result, `isError` with a friendly text if the call failed; report it to the observers.

    The raw reason of a failure goes to the log only; its kind is kept in the result's `_meta`. With a `refusal` the
    call ends before its first attempt.
    """
    record = CallRecord(connection.config.name, tool, arguments, context, connection.redaction)
    clock, permit = time.perf_counter(), None
    try:
        if refusal is not None:
            raise refusal
        permit = await _permit(connection, tool, arguments)
        record.attempts = 1
        try:
            # Nearly every call ends here; tenacity would add 40 µs to each.
            result = await connection.call(tool, arguments, context)
        except errors.ServerUnavailable as failure:
            if not _may_be_repeated(connection, tool, failure):
                raise
            async for attempt in _attempts(connection, tool):
                with attempt:
                    if attempt.retry_state.attempt_number == 1:
                        raise
                    record.attempts += 1
                    result = await connection.call(tool, arguments, context, again=True)
        permit.settle("success")
        record.result = _without_credentials(connection, tool, result)
        record.outcome = "tool_error" if result.isError else "ok"
    except errors.ToolError as failure:
        _note_failure(record, failure, connection, permit)
        kind = "transport" if record.outcome == "refused" else record.outcome
        record.result = await loading.failed_result(str(failure), kind)
    finally:
        if permit is not None:
            permit.settle("cancelled")
        record.duration_ms = round((time.perf_counter() - clock) * 1000, 2)
        for observe in (log_line, *observers):
            observe(record)
    return record.result


async def _permit(connection: ServerConnection, tool: str, arguments: dict[str, Any]) -> Permit:
    """Get the breaker's permit for a call that the operator and the tool's schema allow."""
    server = connection.config.name
    # A call may come from elsewhere than the list of offered tools.
    if not is_selected(connection.config, tool):
        raise left_out(server, tool, name=tool[:LONGEST_NAME])
    spec = connection.spec(tool)
    if spec and (problems := await spec.problems("arguments", arguments)):
        raise errors.InvalidArguments(misfit_text(tool, problems), server=server, tool=tool, executed="no")
    permit = connection.breaker.permit()
    if permit is None:
        raise refused(server, tool)
    return permit


def _may_be_repeated(connection: ServerConnection, tool: str, failure: BaseException) -> bool:
    """Check that another attempt does no harm: the last one was surely not executed, or the tool says it is harmless.

    A call that was refused, by us or by the server, or passed its deadline is never repeated.
    """
    if not isinstance(failure, errors.ServerUnavailable) or isinstance(
        failure, errors.CallRefused | errors.RequestDeclined
    ):
        return False
    spec = connection.spec(tool)
    return failure.executed == "no" or (spec is not None and spec.may_be_repeated)


def _attempts(connection: ServerConnection, tool: str) -> AsyncRetrying:
    """Pause between the attempts of a call and end them (D-5); the first one has to raise what has failed already."""
    pace, server = connection.pace, connection.config.name
    # Three retries are for failures that come fast. A server that cuts off each answer at the last moment could
    # otherwise hold a caller for the deadline four times over.
    latest = pace.clock() + sum(pace.retry_s) + connection.config.timeout_s
    was_last = stop_after_attempt(1 + len(pace.retry_s))

    def log(state: RetryCallState) -> None:
        logger.bind(server=server, tool=tool, attempt=state.attempt_number).info(
            "MCP call {}/{}: attempt {} failed, next in {:g} s",
            server,
            tool,
            state.attempt_number,
            state.upcoming_sleep,
        )

    def give_up(state: RetryCallState) -> NoReturn:
        last = state.outcome.exception() if state.outcome else None
        raise exhausted(server, tool, attempts=state.attempt_number) from last

    return AsyncRetrying(
        retry=retry_if_exception(partial(_may_be_repeated, connection, tool)),
        stop=lambda state: was_last(state) or pace.clock() >= latest,
        wait=wait_chain(*map(wait_fixed, pace.retry_s)),
        sleep=partial(_pause, connection),
        before_sleep=log,
        retry_error_callback=give_up,
    )


async def _pause(connection: ServerConnection, seconds: float) -> None:
    """Sleep, unless the connection is closed meanwhile."""
    waits = {asyncio.ensure_future(connection.pace.sleep(seconds)), asyncio.ensure_future(connection.closing.wait())}
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _without_credentials(connection: ServerConnection, tool: str, result: "CallToolResult") -> "CallToolResult":
    try:
        return connection.redaction.withheld(result)
    except ValidationError as error:
        raise not_understood(connection.config.name, tool) from error


def _note_failure(
    record: CallRecord, failure: errors.ToolError, connection: ServerConnection, permit: Permit | None
) -> None:
    """Record how a call failed, and settle its permit."""
    record.outcome, record.reason = failure.outcome, _reason_of(failure, connection)
    if record.outcome == "refused" and record.attempts:
        record.attempts -= 1  # an attempt that was refused is none
        record.outcome = "transport" if record.attempts else "refused"
    # Arguments that never left, and the end of the connection that we wanted, say nothing about the server.
    if permit is not None and connection.is_wanted and not isinstance(failure, errors.InvalidArguments):
        permit.settle("exhausted" if isinstance(failure, errors.RetriesExhausted) else "failure", record.reason)


def _reason_of(failure: errors.ToolError, connection: ServerConnection) -> str:
    """Write a failure for the operator: what the libraries raised if they did, without secrets."""
    if isinstance(failure, errors.InvalidArguments):
        return "its arguments do not fit"  # the text for the model quotes them
    cause: BaseException = failure
    while cause.__cause__ is not None:
        cause = cause.__cause__
    # What passes a deadline is cancelled first.
    ours = isinstance(cause, errors.ToolError | TimeoutError | asyncio.CancelledError)
    return connection.redaction.clean(str(failure) if ours else in_brief(cause))
