"""Carry one tool call from a caller to its server and turn every failure into a result, in this one place.

`carry` is a call, for which the breaker gives one permit; `retries.attempt` makes its attempts, each of which is a
`ServerConnection.call` (D-5, D-6). An exception would crash the graph that called.
"""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from loguru import logger
from pydantic import ValidationError

from toolweave.errors import (
    CallRefused,
    InvalidArguments,
    RetriesExhausted,
    ServerUnavailable,
    ToolError,
    ToolTimeout,
)
from toolweave.servers.connections import loading
from toolweave.servers.connections.breaker import Verdict
from toolweave.servers.connections.call_context import CallContext
from toolweave.servers.connections.call_record import CallObserver, CallRecord, Outcome
from toolweave.servers.connections.connection import ServerConnection
from toolweave.servers.connections.redaction import in_brief
from toolweave.servers.connections.registry import is_selected
from toolweave.servers.connections.retries import attempt
from toolweave.servers.connections.wording import left_out, not_understood, refused

if TYPE_CHECKING:
    from mcp.types import CallToolResult

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
