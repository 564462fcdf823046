"""Try a call again whose server was not reached, or for which being executed twice does no harm (D-5)."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from loguru import logger
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_chain,
    wait_fixed,
)

from toolweave.errors import CallRefused, RequestDeclined, ServerUnavailable
from toolweave.servers.connections.call_context import CallContext
from toolweave.servers.connections.connection import ServerConnection
from toolweave.servers.connections.tool_spec import ToolSpec
from toolweave.servers.connections.wording import exhausted

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
