"""LangChain tools for MCP tools; they stay valid when their server reconnects.

They replace those of the adapter's `load_mcp_tools`, which silently drop arguments named `config`, `runtime` and
`run_manager`, return lists of blocks with random ids, and raise for audio. Sessions are the adapter's.
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
from toolweave.servers.connections import results
from toolweave.servers.connections.context import (
    QUESTIONS_KEY,
    CallContext,
    ElicitedAnswer,
    OnProgress,
    questions_in,
    unanswered_text,
)
from toolweave.servers.connections.registry import ListedTool, requires_approval

if TYPE_CHECKING:
    from mcp.types import CallToolResult

PROGRESS_EVENT = "tool_progress"
PROGRESS_INTERVAL_S = 0.1
WriteEvent = Callable[[dict[str, Any]], None]
NO_PERSON_TEXT = "No user can answer here. If the tool has parameters for this input, pass it in the arguments."
UNSAFE_REISSUE_TEXT = (
    "To ask a user, the tool would have to be called twice, which may not be safe. The operator can allow that "
    'with "elicit": true in the entry of the server {server!r}.'
)
CallTool = Callable[[str, str, dict[str, Any], CallContext], Awaitable["CallToolResult"]]


class ProgressEvents:
    """Write the progress of one call as stream events: at most one event per interval, and always the last one.

    `report` may be called from any thread, because the tool plane and the graph may use different event loops. Progress
    that is reported after the call has ended, or that is not a finite number, is dropped.

    Args:
        write: writes one event; called on the loop that created this object.
        fields: the fields of every event, such as the tool's name.
        interval_s: the minimum time between two events.
    """

    def __init__(self, write: WriteEvent, fields: dict[str, Any], interval_s: float = PROGRESS_INTERVAL_S) -> None:
        self._write = write
        self._fields = {"type": PROGRESS_EVENT, **fields}
        self._interval_s = interval_s
        self._loop = asyncio.get_running_loop()
        # LangGraph's writer reads the current task of the graph from the context.
        self._context = contextvars.copy_context()
        self._next_at = 0.0
        self._pending: dict[str, Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Handle a progress notification of the server."""
        if self._ended or not math.isfinite(progress):
            return
        known_total = total if total is not None and math.isfinite(total) else None
        text = results.one_line(message) if message else None
        event = {**self._fields, "progress": progress, "total": known_total, "message": text}
        with contextlib.suppress(RuntimeError):  # the graph's loop is closed
            self._loop.call_soon_threadsafe(self._on_report, event, context=self._context)

    def end(self) -> None:
        """Write the pending event and drop all later ones."""
        self._ended = True
        self._write_pending()

    def _on_report(self, event: dict[str, Any]) -> None:
        if self._ended:
            return
        is_first, self._pending = self._pending is None, event
        if self._loop.time() >= self._next_at:
            self._write_pending()
        elif is_first:
            self._timer = self._loop.call_at(self._next_at, self._write_pending, context=self._context)

    def _write_pending(self) -> None:
        event, self._pending = self._pending, None
        if self._timer is not None:
            self._timer.cancel()
        if event is not None:
            self._next_at = self._loop.time() + self._interval_s
            self._write(event)


@contextlib.contextmanager
def progress_callback(**fields: Any) -> Iterator[OnProgress | None]:
    """Yield the callback for a call's progress; None outside of a graph."""
    try:
        write = get_stream_writer()
    except (RuntimeError, KeyError):
        yield None
        return
    events = ProgressEvents(write, fields)
    try:
        yield events.report
    finally:
        events.end()


class McpTool(BaseTool):
    """One tool of one MCP server, called through the tool plane.

    `metadata` holds the tool's MCP annotations (`readOnlyHint` and the like) and `requires_approval`. A failed call
    returns an error ToolMessage and raises nothing. Only asynchronous calls are supported.

    Elicitations during a call are answered by the copies from `with_answers` only. Results longer than
    `max_result_chars` are cut; the copies from `with_result_store` and `with_whole_result` store the whole result.
    """

    server: str
    mcp_name: str
    call: Callable[..., Awaitable[Any]] = Field(exclude=True, repr=False)
    may_be_reissued: bool = False
    answers: tuple[ElicitedAnswer, ...] | None = Field(default=None, exclude=True, repr=False)
    max_result_chars: int = 40_000
    store_result: results.StoreResult | None = Field(default=None, exclude=True, repr=False)
    max_whole_chars: int = 0
    facts: dict[str, Any] | None = Field(default=None, exclude=True, repr=False)
    app_uri: str | None = None
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    handle_tool_error: bool = True

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # Positional, so that a tool's argument names cannot collide with those of `_arun`.
        return (tool_input, tool_call_id), {}

    # Returns content and artifact. LangChain evaluates type hints at each call: exact ones would cost up to 50 µs.
    async def _arun(self, arguments: Any, tool_call_id: Any, *, config: RunnableConfig) -> Any:
        if not isinstance(arguments, dict):
            raise ToolException(f"The tool {self.name} takes an object of named arguments, not a plain string.")
        configurable = config.get("configurable") or {}
        with progress_callback(tool=self.name, server=self.server, tool_call_id=tool_call_id) as on_progress:
            context = CallContext.from_configurable(configurable, tool_call_id, self.answers or (), on_progress)
            result = await self.call(self.server, self.mcp_name, arguments, context)
        if self.facts is not None:
            self.facts.update(context.facts | ({"app": self.app_uri} if self.app_uri else {}))
        if questions := questions_in(result):
            if self.answers is None or not self.may_be_reissued:
                why = NO_PERSON_TEXT if self.may_be_reissued else UNSAFE_REISSUE_TEXT.format(server=self.server)
                raise ToolException(unanswered_text(questions, why, results.error_text(results.text_content(result))))
            return "", {QUESTIONS_KEY: questions}
        if result.isError:
            text = results.error_text(results.text_content(result))
            raise ToolException(text or f"The tool {self.name} failed without an error message.")
        if self.max_whole_chars:
            return await results.whole_message_parts(result, self.max_result_chars, self.max_whole_chars)
        return await results.message_parts(result, self.max_result_chars, self.store_result)

    def with_answers(self, answers: Sequence[ElicitedAnswer]) -> Self:
        """Return this tool for one call with a user's answers; further questions become the message's artifact."""
        return self.model_copy(update={"answers": tuple(answers)})

    def with_result_store(self, store_result: results.StoreResult) -> Self:
        """Return this tool for one call; if its result is cut, `store_result` receives the whole text."""
        return self.model_copy(update={"store_result": store_result})

    def with_facts(self, facts: dict[str, Any]) -> Self:
        """Return this tool for one call; `facts` receives its server, duration, attempts and app."""
        return self.model_copy(update={"facts": facts})

    def with_whole_result(self, max_chars: int) -> Self:
        """Return this tool; if a result is cut, the message's artifact has its first `max_chars` characters."""
        return self.model_copy(update={"max_whole_chars": max_chars})

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"MCP tools are asynchronous: use `await tool.ainvoke(...)` for {self.name}.")


def build_tools(config: McpServerConfig, tools: Mapping[str, ListedTool], call: CallTool) -> list[McpTool]:
    """Build the LangChain tools of a server under the names that models see.

    Models require a description and an object schema with properties, so missing ones are added. Tools for apps only
    are left out. All tools are copies of one template, because pydantic would take 0.2 s to create 5 000.
    """
    template = McpTool(
        name="tool",
        description="A tool.",
        args_schema={},
        server=config.name,
        mcp_name="tool",
        call=call,
        max_result_chars=config.max_result_chars,
    )
    return [
        template.model_copy(update=_tool_fields(config, name, spec))
        for name, spec in tools.items()
        if spec.is_for_models
    ]


def _tool_fields(config: McpServerConfig, name: str, spec: ListedTool) -> dict[str, Any]:
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
        "app_uri": spec.app_uri,
        "may_be_reissued": config.elicit or spec.is_safe_to_repeat,
    }
