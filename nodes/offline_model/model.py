"""Offer the offline model as a LangChain chat model."""

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from pydantic import Field

from toolweave.nodes.offline_model.decision import ToolChoice, decide
from toolweave.nodes.offline_model.streaming import chunks_of
from toolweave.nodes.offline_model.tools.tool_results import text_of
from toolweave.nodes.offline_model.tools.tool_specs import as_openai_tool, read_tools

_CHARACTERS_PER_TOKEN = 4


def _now() -> datetime:
    return datetime.now().astimezone()


class OfflineChatModel(BaseChatModel):
    """Answer by rules, the same input always in the same way: no network, no key, no weights (O-01).

    It chooses among the tools it is given from their names, descriptions and schemas, fills their arguments from the
    user's words, and tells their results in plain words. It is for development and demonstration, and says so.
    `clock` is what "tomorrow" is reckoned from.
    """

    model_name: str = "offline"
    clock: Callable[[], datetime] = Field(default=_now, exclude=True, repr=False)

    @property
    def _llm_type(self) -> str:
        return "toolweave-offline"

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        return {"model_name": self.model_name}

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | bool | dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools: BaseTools, functions, classes, OpenAI dicts, or MCP tools with name and inputSchema.

        Args:
            tools: the tools to choose from.
            tool_choice: "auto", "none", "any"/"required"/True, a tool's name, or OpenAI's or Anthropic's dict form.
            **kwargs: passed on; `parallel_tool_calls=False` limits a message to one call.

        Raises:
            ValueError: `tool_choice` names a tool that is not among `tools`.
        """
        bound = [as_openai_tool(tool) for tool in tools]
        choice = read_tool_choice(tool_choice)
        names = [spec.name for spec in read_tools(bound)]
        if choice.name is not None and choice.name not in names:
            raise ValueError(
                f"tool_choice names {choice.name!r}, which is not bound; bound are: {', '.join(names) or 'none'}."
            )
        if tool_choice is not None:
            kwargs["tool_choice"] = tool_choice
        return self.bind(tools=bound, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002  the signature is LangChain's
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages, stop, kwargs))])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002  the signature is LangChain's
        **kwargs: Any,
    ) -> ChatResult:
        return self._generate(messages, stop, None, **kwargs)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in chunks_of(self._reply(messages, stop, kwargs)):
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in chunks_of(self._reply(messages, stop, kwargs)):
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    def _reply(
        self, messages: Sequence[BaseMessage], stop: Sequence[str] | None, options: Mapping[str, Any]
    ) -> AIMessage:
        tools = read_tools(options.get("tools") or ())
        choice = read_tool_choice(options.get("tool_choice"))
        decision = decide(messages, tools, choice, self.clock().date())
        calls = decision.calls[:1] if options.get("parallel_tool_calls") is False else decision.calls
        text = _until_stop(decision.text, stop)
        return AIMessage(
            content=text,
            tool_calls=[
                tool_call(name=name, args=arguments, id=_call_id(messages, place, name, arguments))
                for place, (name, arguments) in enumerate(calls)
            ],
            usage_metadata=_usage(messages, text, calls),
            response_metadata={
                "model_name": self.model_name,
                "finish_reason": "tool_calls" if calls else "stop",
                "model_provider": "toolweave",
            },
        )


def read_tool_choice(choice: object) -> ToolChoice:
    """Read `tool_choice` in any of the forms that LangChain callers use."""
    if isinstance(choice, Mapping):
        function = choice.get("function")
        name = function.get("name") if isinstance(function, Mapping) else choice.get("name")
        if isinstance(name, str):
            return ToolChoice("required", name)
        choice = choice.get("type")
    if choice in (None, False, "auto", ""):
        return ToolChoice()
    if choice == "none":
        return ToolChoice("none")
    if choice in (True, "any", "required"):
        return ToolChoice("required")
    return ToolChoice("required", str(choice))


def _until_stop(text: str, stop: Sequence[str] | None) -> str:
    places = [place for word in stop or () if word and (place := text.find(word)) >= 0]
    return text[: min(places)] if places else text


def _call_id(messages: Sequence[BaseMessage], place: int, name: str, arguments: Mapping[str, Any]) -> str:
    # The same conversation gives the same ids; the place in it keeps the ids of one conversation apart.
    last = messages[-1].id if messages else None
    source = json.dumps([len(messages), last, place, name, arguments], sort_keys=True, default=str)
    return f"call_{hashlib.sha256(source.encode()).hexdigest()[:24]}"


def _usage(messages: Sequence[BaseMessage], text: str, calls: Sequence[tuple[str, dict[str, Any]]]) -> UsageMetadata:
    """Estimate the tokens: four characters each."""
    read = sum(len(text_of(message.content)) for message in messages)
    written = len(text) + sum(len(name) + len(json.dumps(arguments)) for name, arguments in calls)
    given, made = -(-read // _CHARACTERS_PER_TOKEN), -(-written // _CHARACTERS_PER_TOKEN)
    return UsageMetadata(input_tokens=given, output_tokens=made, total_tokens=given + made)
