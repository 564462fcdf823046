"""Carry one tool call from a caller to its server and turn every failure into a result, in this one place.

`carry` is a call, for which the breaker gives one permit; `retries.attempt` makes its attempts, each of which is a
`ServerConnection.call` (D-5, D-6). An exception would crash the graph that called.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from loguru import logger
from pydantic import ValidationError
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_chain,
    wait_fixed,
)

from toolweave.errors import (
    CallRefused,
    InvalidArguments,
    RequestDeclined,
    RetriesExhausted,
    ServerUnavailable,
    ToolError,
    ToolTimeout,
)
from toolweave.servers.connections.breaker import Verdict
from toolweave.servers.connections.connection import ServerConnection
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.observation import CallObserver, CallRecord, Outcome
from toolweave.servers.connections.redaction import in_brief
from toolweave.servers.connections.registry import ToolSpec, is_selected
from toolweave.servers.connections.results import exhausted, left_out, not_understood, refused
from toolweave.servers.connections.sessions import loading

if TYPE_CHECKING:
    from mcp.types import CallToolResult


async def attempt(
    connection: ServerConnection,
    tool: str,
    arguments: dict[str, Any],
    context: CallContext,
    on_attempt: Callable[[], None],
) -> "CallToolResult":
    """Call a tool, up to `1 + len(pace.retry_s)` times; `on_attempt` is told of each.

    Raises:
        CallRefused: the server is known to be down, or the connection is being closed.
        RetriesExhausted: no attempt reached the server or, for a tool that may be repeated, was answered.
        ToolError: what else an attempt raises; it is final.
    """
    on_attempt()
    try:
        # Nearly every call ends here; tenacity would add 40 µs to each.
        return await connection.call(tool, arguments, context)
    except ServerUnavailable as error:
        if not may_be_repeated(error, connection.spec(tool)):
            raise
        failures = [error]

    async def once_more() -> "CallToolResult":
        if failures:
            raise failures.pop()
        on_attempt()
        return await connection.call(tool, arguments, context, again=True)

    return await _retrying(connection, tool)(once_more)


def may_be_repeated(error: BaseException, spec: ToolSpec | None) -> bool:
    """Say whether a failed attempt is no danger to repeat: it was surely not executed, or the tool says it is none.

    A call that was refused, by us or by the server, or passed its deadline is never repeated.
    """
    if not isinstance(error, ServerUnavailable) or isinstance(error, CallRefused | RequestDeclined):
        return False
    return error.executed == "no" or (spec is not None and spec.may_be_repeated)


def _retrying(connection: ServerConnection, tool: str) -> AsyncRetrying:
    pauses, clock = connection.pace.retry_s, connection.pace.clock
    server = connection.config.name
    # Three retries are for failures that come fast. A server that cuts off each answer at the last moment could
    # otherwise hold a caller for the deadline four times over.
    latest = clock() + sum(pauses) + connection.config.timeout_s
    was_last = stop_after_attempt(1 + len(pauses))

    def stop(state: RetryCallState) -> bool:
        return was_last(state) or clock() >= latest

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
        raise exhausted(server, tool, state.attempt_number) from last

    return AsyncRetrying(
        retry=retry_if_exception(lambda error: may_be_repeated(error, connection.spec(tool))),
        stop=stop,
        wait=wait_chain(*map(wait_fixed, pauses)),
        sleep=partial(_pause, connection),
        before_sleep=log,
        retry_error_callback=give_up,
    )


async def _pause(connection: ServerConnection, seconds: float) -> None:
    """Sleep, unless the connection is closed meanwhile."""
    waits: set[asyncio.Future[Any]] = {
        asyncio.ensure_future(connection.pace.sleep(seconds)),
        asyncio.ensure_future(connection.closing.wait()),
    }
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


KINDS = {"refused": "transport"}
"""What a result's `_meta` calls an outcome that is not one of the taxonomy's own words."""


@dataclass(slots=True)
class Course:
    """How a call goes, as far as it has come."""

    attempts: int = 0
    outcome: Outcome = "cancelled"
    reason: str = ""

    def count_attempt(self) -> None:
        """Note that one more attempt begins."""
        self.attempts += 1

    def end(self, outcome: Outcome, reason: str = "") -> None:
        """Note how the call ended; an attempt that was refused is none."""
        if outcome == "refused" and self.attempts:
            self.attempts -= 1
        self.outcome = "transport" if outcome == "refused" and self.attempts else outcome
        self.reason = reason


async def carry(
    connection: ServerConnection,
    tool: str,
    arguments: dict[str, Any],
    context: CallContext,
    observers: Iterable[CallObserver] = (),
    *,
    refusal: CallRefused | None = None,
) -> "CallToolResult":
    """Call a tool and return its result, `isError` with a friendly text if the call failed; tell the observers.

    The raw reason of a failure goes to the log only; its kind is kept in the result's `_meta`.
    """
    started, clock = datetime.now(UTC), time.perf_counter()
    course, result = Course(), None
    try:
        if refusal is not None:
            raise refusal
        result = _without_credentials(connection, tool, await _permitted(connection, tool, arguments, context, course))
        course.end("tool_error" if result.isError else "ok")
    except ToolError as failure:
        course.end(outcome_of(failure), reason_of(failure, connection))
        result = await loading.failed_result(str(failure), KINDS.get(course.outcome, course.outcome))
    finally:
        record = CallRecord(
            server=connection.config.name,
            tool=tool,
            arguments=arguments,
            context=context,
            redaction=connection.redaction,
            started=started,
            duration_ms=round((time.perf_counter() - clock) * 1000, 2),
            attempts=course.attempts,
            outcome=course.outcome,
            reason=course.reason,
            result=result,
        )
        for observe in (log_line, *observers):
            observe(record)
    return result


async def _permitted(
    connection: ServerConnection, tool: str, arguments: dict[str, Any], context: CallContext, course: Course
) -> "CallToolResult":
    """Attempt a call if the operator, its arguments and the breaker let it; tell the breaker how it went: once."""
    # What is not offered is not asked for either; a call may come from elsewhere than the list of offered tools.
    if not is_selected(connection.config, tool):
        raise left_out(connection.config.name, tool)
    spec = connection.spec(tool)
    if spec and (problem := await connection.argument_checks.refusal(spec, arguments)):
        raise InvalidArguments(problem, server=connection.config.name, tool=tool, executed="no")
    permit = connection.breaker.permit()
    if permit is None:
        raise refused(connection.config.name, tool)
    verdict: Verdict = "cancelled"
    reason = ""
    try:
        result = await attempt(connection, tool, arguments, context, course.count_attempt)
        verdict = "success"
    except ToolError as failure:
        # Arguments that never left, and the end of the connection that we wanted, say nothing about the server.
        if connection.is_wanted and not isinstance(failure, InvalidArguments):
            verdict = "exhausted" if isinstance(failure, RetriesExhausted) else "failure"
            reason = reason_of(failure, connection)
        raise
    finally:
        permit.settle(verdict, reason)
    return result


def _without_credentials(connection: ServerConnection, tool: str, result: "CallToolResult") -> "CallToolResult":
    try:
        return connection.redaction.withheld(result)
    except ValidationError as error:
        raise not_understood(connection.config.name, tool) from error


def reason_of(failure: ToolError, connection: ServerConnection) -> str:
    """Return a failure in the operator's words: what the libraries raised if they did, without secrets."""
    if isinstance(failure, InvalidArguments):
        return "its arguments do not fit"  # the text for the model quotes them
    cause: BaseException = failure
    while cause.__cause__ is not None:
        cause = cause.__cause__
    # What passes a deadline is cancelled first.
    ours = isinstance(cause, ToolError | TimeoutError | asyncio.CancelledError)
    return connection.redaction.clean(str(failure) if ours else in_brief(cause))


def outcome_of(failure: ToolError) -> Outcome:
    """Return the taxonomy's word for a failure."""
    match failure:
        case CallRefused():
            return "refused"
        case InvalidArguments():
            return "invalid_arguments"
        case ServerUnavailable():
            return "transport"
        case ToolTimeout():
            return "timeout"
        case _:
            return "protocol"


def log_line(record: CallRecord) -> None:
    """Write one line into the process's log: who, what, how it ended; never arguments or answers.

    The call log has every call; what went well is of interest here to somebody who looks for it only.
    """
    facts = {
        "server": record.server,
        "tool": record.tool,
        "outcome": record.outcome,
        "duration_ms": record.duration_ms,
    }
    logger.bind(**facts, **record.context.ids()).log(
        "WARNING" if record.reason else "DEBUG" if record.outcome == "ok" else "INFO",
        "MCP call {}/{} {} in {} ms{}",
        record.server,
        record.tool,
        record.outcome,
        record.duration_ms,
        f": {record.reason}" if record.reason else "",
    )
