"""Call a model for an answer, a choice or a text, make sure that it is whole, and read it and what it used (W-10).

Endpoints differ in what they know of functions and of counting tokens, and models in how they write JSON objects: as
a tool call under any name, or as text, plain, fenced or within prose.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal, NamedTuple

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    ToolCallChunk,
)
from langchain_core.messages.tool import invalid_tool_call, tool_call
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.constants import TAG_NOSTREAM
from langgraph.errors import GraphBubbleUp
from typing_extensions import TypedDict

from toolweave.errors import ConfigError, ModelError, StageFailed
from toolweave.message_chunks import ChunkJoiner
from toolweave.nodes.chat_models import LazyChatModel

MAX_DETAIL_CHARS = 300
_ADVICE_BY_STATUS = {
    401: "The model endpoint rejected the API key. Check the key and that it belongs to this endpoint.",
    402: "The model endpoint asks for payment. Check the account's credit.",
    403: "The model endpoint refused access. Check what the API key is allowed to use.",
    404: "The model endpoint does not know the model or the path. Check TOOLWEAVE_MODEL and OPENAI_BASE_URL.",
    429: "The model endpoint is out of quota or asked too often. Wait, or check the account's limits.",
}
_KEY_STATUSES = frozenset({401, 403})


def explain_model_failure(error: Exception) -> str:
    """Return one paragraph for the person who runs the graph; endpoint texts about keys are left out.

    Clients differ, so this reads what they have in common: a `status_code`, and TimeoutError or "Timeout" in a
    class name.
    """
    status = getattr(error, "status_code", None)
    detail = _text_without_key(error)[:MAX_DETAIL_CHARS]
    if isinstance(status, int):
        advice = _ADVICE_BY_STATUS.get(status)
        if advice and status in _KEY_STATUSES:
            return advice
        return f"{advice or _status_text(status)} It said: {detail}"
    names = [kind.__name__ for kind in type(error).__mro__]
    if any("Timeout" in name for name in names):
        return "The model endpoint did not answer in time (TOOLWEAVE_MODEL_TIMEOUT_S)."
    if any("Connection" in name or "TransportError" in name for name in names):
        return "The model endpoint could not be reached or broke the connection. Check its address and that it runs."
    return f"The model failed: {type(error).__name__}: {detail}"


def _text_without_key(error: Exception) -> str:
    request = getattr(getattr(error, "response", None), "request", None)
    key = request.headers.get("authorization", "").partition(" ")[2] if request is not None else ""
    return str(error).replace(key, "***") if key else str(error)


def _status_text(status: int) -> str:
    if status >= 500:
        return f"The model endpoint failed with status {status}. Please try again."
    return f"The model endpoint refused the request with status {status}."


ModelRunnable = Runnable[LanguageModelInput, AIMessage]
AnswerStatus = Literal["done", "length", "content_filter"]
"""How an answer ended; the latter two are finish reasons of one that is cut."""
_STATUS_BY_REASON: dict[str, AnswerStatus] = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
    "safety": "content_filter",
}
CUT_ANSWER_PROBLEMS: dict[str, str] = {
    "length": "The model's answer was cut off at its length limit (finish_reason length).",
    "content_filter": "The model endpoint's content filter withheld the answer (finish_reason content_filter).",
}
"""What to say of an answer that ended otherwise than "done"."""


async def model_turn(model: ModelRunnable, prompt: Sequence[AnyMessage], config: RunnableConfig) -> AIMessage:
    """Return the model's answer; what it streams reaches LangGraph's "messages" stream through `config`.

    Raises:
        ModelError: the endpoint refused, failed, timed out, or ended in the middle of its answer.
    """
    try:
        answer = await _stream(model, prompt, config)
    except (GraphBubbleUp, ModelError):
        raise
    except Exception as error:
        status = getattr(error, "status_code", None)
        failure = ModelError(explain_model_failure(error), status=status if isinstance(status, int) else None)
        if hasattr(error, "status_code"):
            # An endpoint's refusal can quote the key, and the log shows a cause with its text.
            raise failure from None
        raise failure from error
    return _require_complete(answer)


async def _stream(model: ModelRunnable, prompt: Sequence[AnyMessage], config: RunnableConfig) -> AIMessage | None:
    joiner, first = ChunkJoiner(), None
    stream: Any = model.astream(list(prompt), config)
    async with aclosing(stream):
        async for chunk in stream:
            first = first or chunk
            if isinstance(chunk, AIMessageChunk):
                joiner.add(chunk)
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                # Clients wait for each piece by wait_for, which on Python 3.11 drops a cancellation that comes with it.
                raise asyncio.CancelledError
    return _as_message(joiner.whole()) if joiner.count else first


def answer_status(answer: AIMessage) -> AnswerStatus:
    """Tell from the finish reason how an answer without tool calls ended."""
    return _STATUS_BY_REASON.get(_finish_reason(answer).lower(), "done")


def _require_complete(answer: AIMessage | None) -> AIMessage:
    if answer is None:
        raise ModelError("The model endpoint sent an empty answer.")
    reason = _finish_reason(answer)
    if reason == "error" or (not reason and answer.response_metadata.get("model_provider") == "openai"):
        raise ModelError("The model endpoint ended its answer before it was complete. Please try again.")
    return answer


def _as_message(merged: AIMessageChunk) -> AIMessage:
    calls, invalid = _parse_calls(merged.tool_call_chunks)
    return AIMessage(
        content=_join_surrogates(merged.content) if isinstance(merged.content, str) else merged.content,
        id=merged.id,
        name=merged.name,
        additional_kwargs=merged.additional_kwargs,
        response_metadata=merged.response_metadata,
        usage_metadata=merged.usage_metadata,
        tool_calls=calls,
        invalid_tool_calls=invalid,
    )


def _parse_calls(chunks: Sequence[ToolCallChunk]) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    """Parse whole arguments only: LangChain completes cut-off JSON, and half a title is not what was asked for."""
    calls: list[ToolCall] = []
    invalid: list[InvalidToolCall] = []
    for chunk in chunks:
        raw = _join_surrogates(chunk["args"] or "{}")
        try:
            args = json.loads(raw, strict=False)
            json.dumps(args, ensure_ascii=False).encode()  # an escaped half of a character cannot be sent on
        except (ValueError, RecursionError) as error:
            invalid.append(invalid_tool_call(name=chunk["name"], args=raw, id=chunk["id"], error=str(error)))
            continue
        if isinstance(args, dict):
            calls.append(tool_call(name=chunk["name"] or "", args=args, id=chunk["id"]))
        else:
            kind = type(args).__name__
            invalid.append(invalid_tool_call(name=chunk["name"], args=raw, id=chunk["id"], error=f"a {kind}"))
    return calls, invalid


def _join_surrogates(text: str) -> str:
    """Join characters that came in halves, as from endpoints that cut their stream between them; mark lone halves."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _finish_reason(answer: AIMessage) -> str:
    metadata = answer.response_metadata
    return str(metadata.get("finish_reason") or metadata.get("stop_reason") or "")


class ModelUsage(TypedDict):
    """What one model call of a stage has used."""

    stage: str
    model: str
    input_tokens: int
    output_tokens: int


def merge_model_usage(calls: list[ModelUsage], more: list[ModelUsage] | None) -> list[ModelUsage]:
    """Gather what the nodes of a graph write; None begins anew."""
    return [] if more is None else [*calls, *more]


def model_usage(stage: str, model: BaseChatModel, answer: AIMessage) -> ModelUsage:
    """Read what one call has used from its answer; name the model as the endpoint does, or else by its class."""
    named = getattr(model, "model_name", None) or answer.response_metadata.get("model_name")
    counted = answer.usage_metadata
    read, written = (counted["input_tokens"], counted["output_tokens"]) if counted else (0, 0)
    return ModelUsage(stage=stage, model=str(named or type(model).__name__), input_tokens=read, output_tokens=written)


def usage_summary(calls: Sequence[ModelUsage]) -> dict[str, Any]:
    """Sum the calls of a run: tokens, and `calls` by stage."""
    read, written = sum(call["input_tokens"] for call in calls), sum(call["output_tokens"] for call in calls)
    return {
        "input_tokens": read,
        "output_tokens": written,
        "total_tokens": read + written,
        "calls": dict(Counter(call["stage"] for call in calls)),
    }


_FUNCTION_WORDS = re.compile(
    r"\b(tools?|tool_choice|functions?|function_declarations|schema|grammar|jinja)\b", re.IGNORECASE
)
_REFUSAL_STATUSES = frozenset({400, 404, 422, 500, 501})


@dataclass(frozen=True, slots=True)
class Function:
    """An OpenAI function that a model must call.

    `as_json` asks a model that knows no functions for the same object; `if_cut` says what to do if its call is cut off.
    """

    schema: dict[str, Any]
    json_prompt: str
    cut_advice: str = ""


class ModelAnswer(NamedTuple):
    """A whole answer and what it has used."""

    message: AIMessage
    usage: ModelUsage


async def ask_model(
    source: LazyChatModel,
    stage: str,
    system: str,
    messages: Sequence[AnyMessage],
    config: RunnableConfig,
    function: Function | None = None,
) -> ModelAnswer:
    """Ask for a call of `function`, or without one for a text, which streams through `config`.

    Raises:
        StageFailed: the model failed, or its answer is empty, cut off or withheld.
    """
    try:
        model = await source.get()
        answer = await (
            _turn_with_usage(model, model, [SystemMessage(system), *messages], config)
            if function is None
            else _request_function_call(model, function, system, messages, config)
        )
    except (ConfigError, ModelError) as error:
        raise StageFailed(str(error)) from error
    usage = model_usage(stage, model, answer)
    called = answer.tool_calls or answer.invalid_tool_calls
    problem = CUT_ANSWER_PROBLEMS.get(answer_status(answer))
    if problem is None and not (called and function) and not answer.text.strip():
        problem = "The model gave an empty answer."
    if problem:
        advice = f" {function.cut_advice}" if function and answer_status(answer) == "length" else ""
        raise StageFailed(f"{problem}{advice}".rstrip(), model_usage=[usage])
    return ModelAnswer(answer, usage)


async def _request_function_call(
    model: BaseChatModel, function: Function, system: str, messages: Sequence[AnyMessage], config: RunnableConfig
) -> AIMessage:
    """Bind the function; a model or endpoint that refuses it is asked for JSON.

    Nothing of this reaches the "messages" stream: a choice is no message for the user.
    """
    hidden = RunnableConfig(tags=[TAG_NOSTREAM])
    try:
        # "any" is what the ways of demanding a call have in common. with_structured_output would send
        # parallel_tool_calls, too, which not every endpoint takes.
        bound = model.bind_tools([function.schema], tool_choice="any")
        return await _turn_with_usage(model, bound.with_config(hidden), [SystemMessage(system), *messages], config)
    except NotImplementedError:
        pass
    except ModelError as error:
        if not _refuses_functions(error):
            raise
    plain = [SystemMessage(f"{system}\n\n{function.json_prompt}"), *messages]
    return await _turn_with_usage(model, model.with_config(hidden), plain, config)


async def _turn_with_usage(
    model: BaseChatModel, runnable: ModelRunnable, prompt: Sequence[AnyMessage], config: RunnableConfig
) -> AIMessage:
    """Ask for the tokens, too: LangChain does it for OpenAI's own endpoint only, and some know no such option."""
    if "stream_usage" not in type(model).model_fields:
        return await model_turn(runnable, prompt, config)
    try:
        return await model_turn(runnable.bind(stream_usage=True), prompt, config)
    except ModelError as error:
        if error.status not in _REFUSAL_STATUSES or "stream_options" not in str(error):
            raise
    return await model_turn(runnable, prompt, config)


def _refuses_functions(error: ModelError) -> bool:
    detail = str(error).partition("It said:")[2]
    return error.status in _REFUSAL_STATUSES and bool(_FUNCTION_WORDS.search(detail))


MAX_OBJECT_STARTS = 50
# Up to the next beginning of one: to look for an end that never comes from each of them would take quadratic time.
THINKING = re.compile(r"<think>(?:(?!<think>).)*?</think>", re.DOTALL)


def json_objects(answer: AIMessage) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the JSON objects of an answer with the name of the function they are for."""
    for call in answer.tool_calls:
        yield call["name"], call["args"]
    for value in _objects_in_text(THINKING.sub("", answer.text)):
        yield "", value


def _objects_in_text(text: str) -> Iterator[dict[str, Any]]:
    """Give the object that a text is the JSON of, or else those in it, one after the other."""
    if (whole := json_object(text)) is not None:
        yield whole
        return
    decoder = json.JSONDecoder(strict=False)
    start = -1
    for _ in range(MAX_OBJECT_STARTS):
        start = text.find("{", start + 1)
        if start < 0:
            return
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        start = end - 1
        if value and (found := json_object(value)) is not None:
            yield found


def json_object(value: Any) -> dict[str, Any] | None:
    """Return an object, or the one that a text is the whole JSON of; None for anything else."""
    try:
        read = json.loads(value, strict=False) if isinstance(value, str) else value
        json.dumps(read, ensure_ascii=False).encode()  # half a character cannot be sent on
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None


def local_today() -> date:
    """Return the date where the process runs."""
    return datetime.now().astimezone().date()
