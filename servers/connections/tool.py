"""Offer one MCP tool as a LangChain tool that stays valid however often its server reconnects.

The adapter's `load_mcp_tools` is not used for this: the tools it builds silently drop arguments named `config`,
`runtime` and `run_manager`, return lists of blocks with random ids, and raise for audio. Sessions are the adapter's.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, ToolException
from pydantic import Field

from toolweave.config.mcp import McpServerConfig
from toolweave.servers.connections.call_context import CallContext
from toolweave.servers.connections.contents import Keep, message_parts, message_text
from toolweave.servers.connections.progress import progress_events
from toolweave.servers.connections.questions import QUESTIONS_KEY, Answer, questions_of, unanswered
from toolweave.servers.connections.registry import requires_approval
from toolweave.servers.connections.tool_spec import ToolSpec
from toolweave.servers.connections.untrusted import error_text
from toolweave.servers.connections.whole_result import whole_parts

if TYPE_CHECKING:
    from mcp.types import CallToolResult

NOBODY_THERE = "Nobody can be asked here. Give what it asks for in the arguments, if they have room for it."
NOT_TWICE = (
    "A person could be asked only by calling the tool twice, which may not be safe: whoever configures the server "
    '{server!r} can allow it with "elicit": true.'
)

Call = Callable[[str, str, dict[str, Any], CallContext], Awaitable["CallToolResult"]]


class Asked(NamedTuple):
    """What a tool is invoked with. LangChain evaluates the hints of `_arun` at each call: unions would cost 50 µs."""

    arguments: str | dict[str, Any]
    tool_call_id: str | None


class Told(NamedTuple):
    """What becomes of a result: a message's content and its artifact."""

    content: str | list[str | dict[str, Any]]
    artifact: dict[str, Any] | None


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
    answers: tuple[Answer, ...] | None = Field(default=None, exclude=True, repr=False)
    max_result_chars: int = 40_000
    keep: Keep | None = Field(default=None, exclude=True, repr=False)
    whole_chars: int = 0
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    handle_tool_error: bool = True

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # Positional, so that no argument of a tool can collide with a parameter of ours.
        return (Asked(tool_input, tool_call_id),), {}

    async def _arun(self, asked: Asked, *, config: RunnableConfig) -> Told:
        arguments, tool_call_id = asked
        if not isinstance(arguments, dict):
            raise ToolException(f"The tool {self.name} takes an object of named arguments, not a plain string.")
        context = CallContext.from_configurable(config.get("configurable") or {}, tool_call_id, self.answers or ())
        with progress_events(tool=self.name, server=self.server, tool_call_id=tool_call_id) as on_progress:
            context = replace(context, on_progress=on_progress)
            result = await self.call(self.server, self.mcp_name, arguments, context)
        if questions := questions_of(result):
            if self.answers is None or not self.may_be_reissued:
                why = NOBODY_THERE if self.may_be_reissued else NOT_TWICE.format(server=self.server)
                raise ToolException(unanswered(questions, why, error_text(message_text(result))))
            return Told("", {QUESTIONS_KEY: questions})
        if result.isError:
            words = error_text(message_text(result))
            raise ToolException(words or f"The tool {self.name} failed without saying why.")
        if self.whole_chars:
            return Told(*await whole_parts(result, self.max_result_chars, self.whole_chars))
        return Told(*await message_parts(result, self.max_result_chars, self.keep))

    def answering(self, answers: Sequence[Answer]) -> Self:
        """Return this tool for one call with a person's answers; what else is asked becomes the message's artifact."""
        return self.model_copy(update={"answers": tuple(answers)})

    def keeping(self, keep: Keep) -> Self:
        """Return this tool for one call whose whole answer goes to `keep` when only a part of it can be shown."""
        return self.model_copy(update={"keep": keep})

    def giving_whole(self, most: int) -> Self:
        """Return this tool with the first `most` characters of a cut answer in its messages' artifacts."""
        return self.model_copy(update={"whole_chars": most})

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"MCP tools are asynchronous: use `await tool.ainvoke(...)` for {self.name}.")


def build_tools(config: McpServerConfig, offer: Mapping[str, ToolSpec], call: Call) -> list[McpTool]:
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


def _own_fields(config: McpServerConfig, name: str, spec: ToolSpec) -> dict[str, Any]:
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
