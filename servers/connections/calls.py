"""Carry one tool call from a caller to its server and turn every failure into a result, in this one place.

`carry` is a call; `ServerConnection.call` is one attempt of it. An exception would crash the graph that called.
"""

import time
from typing import TYPE_CHECKING, Any, Literal

from loguru import logger

from toolweave.errors import ServerUnavailable, ToolError, ToolTimeout
from toolweave.servers.connections import loading
from toolweave.servers.connections.call_context import CallContext
from toolweave.servers.connections.connection import ServerConnection
from toolweave.servers.connections.redaction import in_brief

if TYPE_CHECKING:
    from mcp.types import CallToolResult

FailureKind = Literal["transport", "timeout", "protocol"]


async def carry(
    connection: ServerConnection, tool: str, arguments: dict[str, Any], context: CallContext
) -> "CallToolResult":
    """Call a tool and return its result, `isError` with a friendly text if the call failed; log one line either way.

    The raw reason of a failure goes to the log only; its kind is kept in the result's `_meta`.
    """
    started = time.perf_counter()
    outcome, reason = "cancelled", ""
    try:
        result = await connection.call(tool, arguments, context)
        outcome = "tool_error" if result.isError else "ok"
    except ToolError as failure:
        outcome = kind_of(failure)
        reason = connection.redaction.clean(f": {in_brief(failure.__cause__) if failure.__cause__ else failure}")
        result = await loading.failed_result(str(failure), outcome)
    finally:
        duration_ms = round((time.perf_counter() - started) * 1000, 2)
        record = {"server": connection.config.name, "tool": tool, "outcome": outcome, "duration_ms": duration_ms}
        logger.bind(**record, **context.ids()).log(
            "WARNING" if reason else "INFO",
            "MCP call {}/{} {} in {} ms{}",
            connection.config.name,
            tool,
            outcome,
            duration_ms,
            reason,
        )
    return result


def kind_of(failure: ToolError) -> FailureKind:
    """Return the taxonomy's word for a failure."""
    match failure:
        case ServerUnavailable():
            return "transport"
        case ToolTimeout():
            return "timeout"
        case _:
            return "protocol"
