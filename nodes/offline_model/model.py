"""The offline model as a LangChain chat model: it returns the next reply, or a required tool call."""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field

from toolweave.nodes.offline_model.choose_tool import MAX_MESSAGE_CHARS, Context, best_tools, plan_message
from toolweave.nodes.offline_model.dialogue import MAX_TURNS, next_reply
from toolweave.nodes.offline_model.english import hide_literals, strip_courtesy
from toolweave.nodes.offline_model.fill_tool import Intent, fill_any_tool, unexplained_words
from toolweave.nodes.offline_model.results import NOTICE, Reply, Turn, call_key, content_text, label, read_turns
from toolweave.nodes.offline_model.script_tasks import script_or_notes_call
from toolweave.nodes.offline_model.tools import ToolSpec, invalid_parameters, minimal_value, parse_tools, resolve_schema

_NO_MATCHING_TOOL = "None of the offered tools does what you ask for."
_NO_OTHER_READING = "I cannot read this request in another way, and my choice was refused."
NamedCall = tuple[str, dict[str, Any]]


def structured_call(
    turns: Sequence[Turn], tools: Sequence[ToolSpec], name: str | None, today: date
) -> NamedCall | None:
    """Return a call of the named tool, or of the best match; None if this turn already has the call."""
    offered = tuple(tool for tool in tools if name in (None, tool.name))
    if not offered:
        return None
    if candidates := _workflow_tools(offered[0]):
        return offered[0].name, _choose_request(turns, candidates, today)
    call = _forced_call(turns[-1].text, offered, today)
    return None if call_key(*call) in turns[-1].results else call


def _workflow_tools(tool: ToolSpec) -> tuple[ToolSpec, ...]:
    """Return the tools that the workflow's function chooses among: each form of `arguments` has a tool id as title."""
    properties = tool.schema.get("properties")
    form = properties.get("arguments") if isinstance(properties, Mapping) and "tool_id" in properties else None
    if not isinstance(form, Mapping):
        return ()
    listed = form.get("anyOf", [form])
    branches = [resolve_schema(one, tool.schema) for one in (listed if isinstance(listed, list) else ())]
    functions = (
        # The workflow's descriptions start with the tool's name: "Get product: Get one product …".
        {"name": one.get("title"), "description": about.partition(": ")[2] or about, "parameters": one}
        for one in branches
        if isinstance(about := one.get("description", ""), str)
    )
    return parse_tools([{"function": function} for function in functions])


def _choose_request(turns: Sequence[Turn], candidates: tuple[ToolSpec, ...], today: date) -> dict[str, Any]:
    """Return the request for the conversation's first message: later ones only list the problems of a choice."""
    text, refused = turns[-1].text, list[Any]()
    for turn in reversed(turns[:-1]):
        try:
            refused.append(json.loads(turn.answer))
        except (ValueError, RecursionError):
            break
        text = turn.text
    intents = plan_message(text, Context(candidates, today)).intents
    problem = _request_problem(intents, text, today)
    if problem is None:
        intent = intents[0]
        key = {intent.tool.key.name: intent.target.ids[0]} if intent.tool.key and intent.target else {}
        arguments = {**key, **intent.arguments}
        chosen = {"tool_id": intent.tool.name, "arguments": arguments}
        if wrong := invalid_parameters(intent.tool.schema, arguments):
            problem = f"{intent.tool.name} does not accept the value of {' and '.join(map(label, sorted(wrong)))}."
        elif chosen not in refused:
            return chosen
    return {"reason": f"{problem or _NO_OTHER_READING} {NOTICE}"}


def _request_problem(intents: Sequence[Intent], text: str, today: date) -> str | None:
    """Return why no request can be made from the message; None if one can."""
    if len(intents) != 1:
        return "Give one request at a time." if intents else _NO_MATCHING_TOOL
    intent = intents[0]
    missing = [one.name for one in (*intent.missing, *filter(None, [intent.too_long]))]
    if intent.target and intent.tool.key and len(intent.target.ids) != 1:
        missing.append(intent.tool.key.name)
    if missing:
        return f"{intent.tool.name} needs a value that is missing: {' and '.join(map(label, sorted(missing)))}."
    unused = unexplained_words(text, intents, today)
    if unused:
        return f"I could not place {' and '.join(f'‘{word}’' for word in unused[:3])} in {intent.tool.name}."
    return None


def _forced_call(text: str, offered: tuple[ToolSpec, ...], today: date) -> NamedCall:
    """Fill the best matching tool; required parameters that the text does not mention get a minimal value."""
    text = text[:MAX_MESSAGE_CHARS]
    hidden, literals = hide_literals(text)
    tool = best_tools(offered, text, today)[0]
    arguments = dict(fill_any_tool(tool, strip_courtesy(hidden), literals, today).arguments)
    for parameter in tool.parameters:
        if parameter.required and parameter.name not in arguments:
            arguments[parameter.name] = minimal_value(parameter, tool.schema, text, today)
    return tool.name, arguments


_CHARACTERS_PER_TOKEN = 4
_WORD = re.compile(r"\s*\S+\s*?(?=\s|$)|\s+")


_OPTIONAL_CHOICES = (None, False, "", "auto", "none")
_REQUIRED_CHOICES = (True, "any", "required")


def _now() -> datetime:
    return datetime.now().astimezone()


class OfflineChatModel(BaseChatModel):
    """A deterministic chat model made of rules: no network, no key, no weights (O-01).

    It chooses a bound tool by name, description and schema, fills its arguments from the user's words, and describes
    results in plain words. It is for development and demonstration, and its own answers say so. `clock` returns the
    current time, from which "tomorrow" is resolved.
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
        tool_choice: str | bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools: BaseTools, functions, classes, or OpenAI dicts.

        Args:
            tools: the tools to choose from.
            tool_choice: "auto", "none", "any"/"required"/True, or a tool's name.
            **kwargs: passed on; `parallel_tool_calls=False` limits a message to one call.

        Raises:
            ValueError: `tool_choice` names a tool that is not among `tools`.
        """
        bound = [convert_to_openai_tool(tool) for tool in tools]
        names = [spec.name for spec in parse_tools(bound)]
        if tool_choice not in (*_OPTIONAL_CHOICES, *_REQUIRED_CHOICES, *names):
            raise ValueError(
                f"tool_choice names {tool_choice!r}, which is not bound; bound are: {', '.join(names) or 'none'}."
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

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002  the signature is LangChain's
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        yield from _message_chunks(self._reply(messages, stop, kwargs))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002  the signature is LangChain's
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        # In a thread, because the first replies compile many patterns.
        for chunk in _message_chunks(await asyncio.to_thread(self._reply, messages, stop, kwargs)):
            yield chunk

    def _reply(
        self, messages: Sequence[BaseMessage], stop: Sequence[str] | None, options: Mapping[str, Any]
    ) -> AIMessage:
        tools = parse_tools(options.get("tools") or ())
        reply = decide_reply(messages, tools, options.get("tool_choice"), self.clock().date())
        calls = reply.calls[:1] if options.get("parallel_tool_calls") is False else reply.calls
        places = [place for word in stop or () if word and (place := reply.text.find(word)) >= 0]
        text = reply.text[: min(places)] if places else reply.text
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


def decide_reply(messages: Sequence[BaseMessage], tools: tuple[ToolSpec, ...], choice: object, today: date) -> Reply:
    """Return the next message; the same messages always give the same one (O-01)."""
    turns = read_turns(messages, limit=MAX_TURNS)
    if tools and choice not in _OPTIONAL_CHOICES:
        name = next((tool.name for tool in tools if tool.name == choice), None)
        call = script_or_notes_call(messages, tools, name) or structured_call(turns, tools, name, today)
        if call:
            return Reply(calls=(call,))
    return next_reply(turns, tools, today, may_call=choice != "none")


def _call_id(messages: Sequence[BaseMessage], place: int, name: str, arguments: Mapping[str, Any]) -> str:
    # The same conversation gives the same ids; within one, its length makes them different.
    last = messages[-1].id if messages else None
    source = json.dumps([len(messages), last, place, name, arguments], sort_keys=True, default=str)
    return f"call_{hashlib.sha256(source.encode()).hexdigest()[:24]}"


def _usage(messages: Sequence[BaseMessage], text: str, calls: Sequence[tuple[str, dict[str, Any]]]) -> UsageMetadata:
    """Estimate the tokens: four characters each."""
    read = sum(len(content_text(message.content)) for message in messages)
    written = len(text) + sum(len(json.dumps(call)) for call in calls)
    sent, received = -(-read // _CHARACTERS_PER_TOKEN), -(-written // _CHARACTERS_PER_TOKEN)
    return UsageMetadata(input_tokens=sent, output_tokens=received, total_tokens=sent + received)


def _message_chunks(message: AIMessage) -> Iterator[ChatGenerationChunk]:
    """Yield the text word by word, each call whole, and the usage last."""
    for word in _WORD.findall(str(message.content)):
        yield ChatGenerationChunk(message=AIMessageChunk(content=word))
    for index, call in enumerate(message.tool_calls):
        arguments = json.dumps(call["args"], ensure_ascii=False)
        whole = tool_call_chunk(name=call["name"], args=arguments, id=call["id"], index=index)
        yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[whole]))
    yield ChatGenerationChunk(
        message=AIMessageChunk(
            content="",
            usage_metadata=message.usage_metadata,
            response_metadata=message.response_metadata,
            chunk_position="last",
        )
    )
