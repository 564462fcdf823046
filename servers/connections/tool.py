"""Offer one MCP tool as a LangChain tool that stays valid however often its server reconnects.

The adapter's `load_mcp_tools` is not used for this: the tools it builds silently drop arguments named `config`,
`runtime` and `run_manager`, return lists of blocks with random ids, and raise for audio. Sessions are the adapter's.
"""

import asyncio
import contextlib
import contextvars
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, ToolException
from langgraph.config import get_stream_writer
from pydantic import Field

from toolweave.config.mcp import McpServerConfig
from toolweave.servers.connections.context import (
    QUESTIONS_KEY,
    CallContext,
    ElicitedAnswer,
    OnProgress,
    questions_of,
    unanswered,
)
from toolweave.servers.connections.registry import ListedTool, requires_approval
from toolweave.servers.connections.results import Keep, error_text, message_parts, message_text, note, whole_parts

if TYPE_CHECKING:
    from mcp.types import CallToolResult

EVENT_TYPE = "tool_progress"
INTERVAL_S = 0.1
Write = Callable[[dict[str, Any]], None]
NOBODY_THERE = "Nobody can be asked here. Give what it asks for in the arguments, if they have room for it."
NOT_TWICE = (
    "A person could be asked only by calling the tool twice, which may not be safe: whoever configures the server "
    '{server!r} can allow it with "elicit": true.'
)
Call = Callable[[str, str, dict[str, Any], CallContext], Awaitable["CallToolResult"]]


class ProgressEvents:
    """Write one call's progress while it runs: at most one event per interval, and always the last one.

    `report` may be called from any thread, as the tool plane's loop need not be the graph's. What a server reports
    after the call has ended, or in numbers that are none, is dropped.

    Args:
        write: takes an event; called on the loop that made this object.
        facts: what every event says of the call.
        interval_s: how much later than an event the next one may come.
    """

    def __init__(self, write: Write, facts: dict[str, Any], interval_s: float = INTERVAL_S) -> None:
        self._write = write
        self._facts = {"type": EVENT_TYPE, **facts}
        self._interval_s = interval_s
        self._loop = asyncio.get_running_loop()
        # LangGraph's writer looks into the context for where in the graph it is.
        self._context = contextvars.copy_context()
        self._next_at = 0.0
        self._waiting: dict[str, Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Take in a progress notification."""
        if self._ended or not math.isfinite(progress):
            return
        known_total = total if total is not None and math.isfinite(total) else None
        words = note(message) if message else None
        event = {**self._facts, "progress": progress, "total": known_total, "message": words}
        with contextlib.suppress(RuntimeError):  # the graph's loop has closed: nobody is there any more
            self._loop.call_soon_threadsafe(self._receive, event, context=self._context)

    def end(self) -> None:
        """Write what waits, and nothing after that."""
        self._ended = True
        self._write_waiting()

    def _receive(self, event: dict[str, Any]) -> None:
        if self._ended:
            return
        is_first, self._waiting = self._waiting is None, event
        if self._loop.time() >= self._next_at:
            self._write_waiting()
        elif is_first:
            self._timer = self._loop.call_at(self._next_at, self._write_waiting, context=self._context)

    def _write_waiting(self) -> None:
        waiting, self._waiting = self._waiting, None
        if self._timer is not None:
            self._timer.cancel()
        if waiting is not None:
            self._next_at = self._loop.time() + self._interval_s
            self._write(waiting)


@contextlib.contextmanager
def progress_events(**facts: Any) -> Iterator[OnProgress | None]:
    """Yield the callback for a call's progress, inside a graph; None outside of one."""
    try:
        write = get_stream_writer()
    except (RuntimeError, KeyError):
        yield None
        return
    events = ProgressEvents(write, facts)
    try:
        yield events.report
    finally:
        events.end()


class McpTool(BaseTool):
    """One tool of one MCP server; invoking it goes through the tool plane.

    `metadata` holds the tool's MCP annotations (`readOnlyHint` and the like) and `requires_approval`. A failed call
    becomes an error ToolMessage, never an exception. Only asynchronous invocation is possible.

    What the server asks during a call stays unanswered, unless the tool was got from `answering`. Answers longer than
    `max_result_chars` are cut; the rest is kept if the tool was got from `keeping` or `giving_whole`.
    """

    server: str
    mcp_name: str
    call: Callable[..., Awaitable[Any]] = Field(exclude=True, repr=False)
    may_be_reissued: bool = False
    answers: tuple[ElicitedAnswer, ...] | None = Field(default=None, exclude=True, repr=False)
    max_result_chars: int = 40_000
    keep: Keep | None = Field(default=None, exclude=True, repr=False)
    whole_chars: int = 0
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    handle_tool_error: bool = True

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # Positional, so that no argument of a tool can collide with a parameter of ours.
        return (tool_input, tool_call_id), {}

    # LangChain evaluates the hints at each call: exact ones would cost up to 50 µs. It returns content and artifact.
    async def _arun(self, arguments: Any, tool_call_id: Any, *, config: RunnableConfig) -> Any:
        if not isinstance(arguments, dict):
            raise ToolException(f"The tool {self.name} takes an object of named arguments, not a plain string.")
        configurable = config.get("configurable") or {}
        with progress_events(tool=self.name, server=self.server, tool_call_id=tool_call_id) as on_progress:
            context = CallContext.from_configurable(configurable, tool_call_id, self.answers or (), on_progress)
            result = await self.call(self.server, self.mcp_name, arguments, context)
        if questions := questions_of(result):
            if self.answers is None or not self.may_be_reissued:
                why = NOBODY_THERE if self.may_be_reissued else NOT_TWICE.format(server=self.server)
                raise ToolException(unanswered(questions, why, error_text(message_text(result))))
            return "", {QUESTIONS_KEY: questions}
        if result.isError:
            words = error_text(message_text(result))
            raise ToolException(words or f"The tool {self.name} failed without saying why.")
        if self.whole_chars:
            return await whole_parts(result, self.max_result_chars, self.whole_chars)
        return await message_parts(result, self.max_result_chars, self.keep)

    def answering(self, answers: Sequence[ElicitedAnswer]) -> Self:
        """Return this tool for one call with a person's answers; further questions become the message's artifact."""
        return self.model_copy(update={"answers": tuple(answers)})

    def keeping(self, keep: Keep) -> Self:
        """Return this tool for one call whose whole answer goes to `keep` when only a part of it can be shown."""
        return self.model_copy(update={"keep": keep})

    def giving_whole(self, most: int) -> Self:
        """Return this tool with the first `most` characters of a cut answer in its messages' artifacts."""
        return self.model_copy(update={"whole_chars": most})

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"MCP tools are asynchronous: use `await tool.ainvoke(...)` for {self.name}.")


def build_tools(config: McpServerConfig, offer: Mapping[str, ListedTool], call: Call) -> list[McpTool]:
    """Build the LangChain tools of a server, by the names they are offered under.

    A missing description is filled in and the schema made an object with properties: models insist on both. All are
    copies of one: pydantic would take a fifth of a second to make 5 000.
    """
    first = McpTool(
        name="tool",
        description="A tool.",
        args_schema={},
        server=config.name,
        mcp_name="tool",
        call=call,
        max_result_chars=config.max_result_chars,
    )
    return [first.model_copy(update=_own_fields(config, name, spec)) for name, spec in offer.items()]


def _own_fields(config: McpServerConfig, name: str, spec: ListedTool) -> dict[str, Any]:
    schema = {**spec.input_schema, "type": "object"}
    schema.setdefault("properties", {})
    return {
        "name": name,
        "description": spec.description or f"Tool {spec.name} of the MCP server {config.name}; it has no description.",
        "args_schema": schema,
        "metadata": spec.annotations
        | ({"_meta": spec.meta} if spec.meta else {})
        | {"requires_approval": requires_approval(config, spec)},
        "mcp_name": spec.name,
        "may_be_reissued": config.elicit or spec.may_be_repeated,
    }
