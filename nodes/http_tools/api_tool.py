"""Offer an operation of an HTTP API as a LangChain tool, for the agent loop and any other agent."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, Self

from langchain_core.tools import BaseTool, ToolException
from pydantic import Field

from toolweave.errors import ApiCallFailed
from toolweave.nodes.http_tools.api_calls import ApiCalls
from toolweave.nodes.http_tools.output import Output, mapped_output
from toolweave.nodes.http_tools.request_building import WrongArguments, build_request
from toolweave.nodes.http_tools.specs import HTTPResponseSpec
from toolweave.nodes.large_results import KEPT, Keep
from toolweave.tool_config import Method, ToolConfig
from toolweave.visible import visible

MAX_RESULT_CHARS = 40_000
ASK_FOR_LESS = "Ask for less at once, for example with a filter, a smaller limit or the next page."
PERHAPS_DONE = "The API may have carried it out all the same: find out before you call the tool again."
_CHANGES_NOTHING: frozenset[Method] = frozenset({"GET", "HEAD"})


class Asked(NamedTuple):
    """What a tool is invoked with."""

    arguments: str | dict[str, Any]


class Told(NamedTuple):
    """What becomes of an answer: a message's content and its artifact."""

    content: str
    artifact: dict[str, Any] | None


class ApiTool(BaseTool):
    """One registered operation; its name is the tool_id, its result what the response mappings leave of the answer.

    A call that fails becomes an error ToolMessage that says what to do about it, never an exception. Only asynchronous
    invocation is possible. Results longer than `max_result_chars` are cut, unless the tool was got from `keeping`.
    """

    operation: ToolConfig
    calls: ApiCalls = Field(exclude=True, repr=False)
    max_result_chars: int = MAX_RESULT_CHARS
    keep: Keep | None = Field(default=None, exclude=True, repr=False)
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    handle_tool_error: bool = True

    def _to_args_and_kwargs(
        self,
        tool_input: str | dict[str, Any],
        tool_call_id: str | None,  # noqa: ARG002 - the interface of BaseTool
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # Positional, so that no argument of a tool can collide with a parameter of ours.
        return (Asked(tool_input),), {}

    async def _arun(self, asked: Asked) -> Told:
        if not isinstance(asked.arguments, dict):
            raise ToolException(f"The tool {self.name} takes an object of named arguments, not a plain string.")
        try:
            request = build_request(self.operation, asked.arguments)
            response = await self.calls.call(self.operation, request)
        except WrongArguments as error:
            listed = "; ".join(error.problems)
            raise ToolException(f"The arguments do not fit: {listed}. Correct them and call the tool again.") from None
        except ApiCallFailed as error:
            raise ToolException(self._failure(error)) from None
        output, text = await asyncio.to_thread(self._shown, response)
        return await self._told(output, text)

    def keeping(self, keep: Keep) -> Self:
        """Return this tool for one call whose whole answer goes to `keep` when only a part of it can be shown."""
        return self.model_copy(update={"keep": keep})

    def _failure(self, error: ApiCallFailed) -> str:
        lost = error.executed and error.response is None and self.operation.api.method not in _CHANGES_NOTHING
        return f"{error} {PERHAPS_DONE}" if lost else str(error)

    def _shown(self, response: HTTPResponseSpec) -> tuple[Output, str]:
        """Return the output, which is for programs, and the text of it that a model reads."""
        output = mapped_output(self.operation, response)
        value = output.value
        return output, visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))

    async def _told(self, output: Output, text: str) -> Told:
        value, limit = output.value, self.max_result_chars
        notes = "".join(f"\n\n[{warning}]" for warning in output.warnings)
        if len(text) <= limit:
            return Told(text + notes, {"structured_content": value} if isinstance(value, dict) else None)
        how = await self.keep(text, limit) if self.keep else None
        notice = f"[The answer was cut: {limit} of its {len(text)} characters are shown. {how or ASK_FOR_LESS}]"
        return Told(f"{text[:limit]}\n{notice}{notes}", {KEPT: {"characters": len(text)}} if how else None)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"HTTP tools are asynchronous: use `await tool.ainvoke(...)` for {self.name}.")


def http_tools(configs: Iterable[ToolConfig], calls: ApiCalls | None = None) -> list[ApiTool]:
    """Make LangChain tools of operations of HTTP APIs, for `build_agent_loop(tools=...)` and any other agent.

    Args:
        configs: the operations.
        calls: what sends requests; by default to public addresses only, with variables `TOOL_*`.
    """
    sending = calls or ApiCalls()
    return [
        ApiTool(
            name=config.tool_id,
            description=config.description,
            args_schema={"properties": {}, **config.input_schema, "type": "object"},
            operation=config,
            calls=sending,
        )
        for config in configs
    ]
