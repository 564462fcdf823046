"""Call a model, check that its answer is complete, and read the answer and its token usage (W-10).

Not every endpoint supports function calls or token counts. Models write JSON objects in different ways: as a tool call
under any name, or as text, plain, fenced or within prose.
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
    402: "The model endpoint requires payment. Check the account's credit.",
    403: "The model endpoint refused access. Check what the API key is allowed to use.",
    404: "The model endpoint does not know the model or the path. Check TOOLWEAVE_MODEL and OPENAI_BASE_URL.",
    429: "The model endpoint's quota or rate limit is exceeded. Wait, or check the account's limits.",
}
_KEY_STATUSES = frozenset({401, 403})


def explain_model_failure(error: Exception) -> str:
    """Return one paragraph for the person who runs the graph, without endpoint texts that may quote the API key.

    It reads what the exceptions of all clients have in common: `status_code`, and "Timeout", "Connection" or
    "TransportError" in a class name.
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
    api_key = request.headers.get("authorization", "").partition(" ")[2] if request is not None else ""
    return str(error).replace(api_key, "***") if api_key else str(error)


def _status_text(status: int) -> str:
    if status >= 500:
        return f"The model endpoint failed with status {status}. Please try again."
    return f"The model endpoint refused the request with status {status}."


ModelRunnable = Runnable[LanguageModelInput, AIMessage]
AnswerStatus = Literal["done", "length", "content_filter"]
"""Whether an answer is complete; "length" and "content_filter" are finish reasons of an incomplete one."""
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
"""Error texts for incomplete answers, by status."""


async def model_turn(model: ModelRunnable, prompt: Sequence[AnyMessage], config: RunnableConfig) -> AIMessage:
    """Return the model's answer; its chunks reach LangGraph's "messages" stream through `config`.

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
            # An endpoint's error can quote the key, and the log includes the text of a cause.
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
                # Clients use wait_for for each chunk; on Python 3.11 it loses a cancellation that arrives with a chunk.
                raise asyncio.CancelledError
    return _as_message(joiner.joined_chunk()) if joiner.count else first


def answer_status(answer: AIMessage) -> AnswerStatus:
    """Return from the finish reason whether an answer without tool calls is complete."""
    return _STATUS_BY_REASON.get(_finish_reason(answer).lower(), "done")


def _require_complete(answer: AIMessage | None) -> AIMessage:
    if answer is None:
        raise ModelError("The model endpoint sent an empty answer.")
    reason = _finish_reason(answer)
    if reason == "error" or (not reason and answer.response_metadata.get("model_provider") == "openai"):
        raise ModelError("The model endpoint ended its answer before it was complete. Please try again.")
    return answer


def _as_message(chunk: AIMessageChunk) -> AIMessage:
    calls, invalid = _parse_calls(chunk.tool_call_chunks)
    return AIMessage(
        content=_join_surrogates(chunk.content) if isinstance(chunk.content, str) else chunk.content,
        id=chunk.id,
        name=chunk.name,
        additional_kwargs=chunk.additional_kwargs,
        response_metadata=chunk.response_metadata,
        usage_metadata=chunk.usage_metadata,
        tool_calls=calls,
        invalid_tool_calls=invalid,
    )


def _parse_calls(chunks: Sequence[ToolCallChunk]) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    """Parse complete arguments only: LangChain would complete cut-off JSON and so call a tool with half a title."""
    calls: list[ToolCall] = []
    invalid: list[InvalidToolCall] = []
    for chunk in chunks:
        raw = _join_surrogates(chunk["args"] or "{}")
        try:
            args = json.loads(raw, strict=False)
            json.dumps(args, ensure_ascii=False).encode()  # an escaped lone surrogate cannot be sent
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
    """Join surrogate pairs, which some endpoints split between chunks; replace lone surrogates."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _finish_reason(answer: AIMessage) -> str:
    metadata = answer.response_metadata
    return str(metadata.get("finish_reason") or metadata.get("stop_reason") or "")


class ModelUsage(TypedDict):
    """Token usage of one model call of a stage."""

    stage: str
    model: str
    input_tokens: int
    output_tokens: int


def merge_model_usage(calls: list[ModelUsage], more: list[ModelUsage] | None) -> list[ModelUsage]:
    """Add the usage that the nodes of a graph write; None clears the list."""
    return [] if more is None else [*calls, *more]


def model_usage(stage: str, model: BaseChatModel, answer: AIMessage) -> ModelUsage:
    """Return the token usage of one call; the model's name is its `model_name`, the response's, or its class."""
    name = getattr(model, "model_name", None) or answer.response_metadata.get("model_name")
    usage = answer.usage_metadata
    inputs, outputs = (usage["input_tokens"], usage["output_tokens"]) if usage else (0, 0)
    return ModelUsage(stage=stage, model=str(name or type(model).__name__), input_tokens=inputs, output_tokens=outputs)


def usage_summary(calls: Sequence[ModelUsage]) -> dict[str, Any]:
    """Return the token totals of a run, and the number of calls by stage."""
    inputs, outputs = sum(call["input_tokens"] for call in calls), sum(call["output_tokens"] for call in calls)
    return {
        "input_tokens": inputs,
        "output_tokens": outputs,
        "total_tokens": inputs + outputs,
        "calls": dict(Counter(call["stage"] for call in calls)),
    }


_FUNCTION_WORDS = re.compile(
    r"\b(tools?|tool_choice|functions?|function_declarations|schema|grammar|jinja)\b", re.IGNORECASE
)
_REFUSAL_STATUSES = frozenset({400, 404, 422, 500, 501})


@dataclass(frozen=True, slots=True)
class Function:
    """An OpenAI function that a model must call.

    `json_prompt` requests the same object from a model without function calls. `cut_advice` tells the user what to
    change if the call is incomplete.
    """

    schema: dict[str, Any]
    json_prompt: str
    cut_advice: str = ""


class ModelAnswer(NamedTuple):
    """A complete answer and its token usage."""

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
    """Request a call of `function`, or without a function a text, whose chunks stream through `config`.

    Raises:
        StageFailed: the model failed, or its answer is empty, cut off or withheld.
    """
    try:
        model = await source.get()
        answer = await (
            model_turn(model, [SystemMessage(system), *messages], config)
            if function is None
            else _request_function_call(model, function, system, messages, config)
        )
    except (ConfigError, ModelError) as error:
        raise StageFailed(str(error)) from error
    usage = model_usage(stage, model, answer)
    called = answer.tool_calls or answer.invalid_tool_calls
    problem = CUT_ANSWER_PROBLEMS.get(answer_status(answer))
    if problem is None and not (called and function) and not answer.text.strip():
        problem = "The model returned an empty answer."
    if problem:
        advice = f" {function.cut_advice}" if function and answer_status(answer) == "length" else ""
        raise StageFailed(f"{problem}{advice}".rstrip(), model_usage=[usage])
    return ModelAnswer(answer, usage)


async def _request_function_call(
    model: BaseChatModel, function: Function, system: str, messages: Sequence[AnyMessage], config: RunnableConfig
) -> AIMessage:
    """Request a call of the function; if the model or endpoint rejects functions, request JSON text.

    The answer does not reach the "messages" stream, because it is not a message for the user.
    """
    hidden = RunnableConfig(tags=[TAG_NOSTREAM])
    try:
        # All chat models of LangChain accept tool_choice "any". with_structured_output would also send
        # parallel_tool_calls, which not every endpoint accepts.
        bound = model.bind_tools([function.schema], tool_choice="any")
        return await model_turn(bound.with_config(hidden), [SystemMessage(system), *messages], config)
    except NotImplementedError:
        pass
    except ModelError as error:
        if not _refuses_functions(error):
            raise
    plain = [SystemMessage(f"{system}\n\n{function.json_prompt}"), *messages]
    return await model_turn(model.with_config(hidden), plain, config)


def _refuses_functions(error: ModelError) -> bool:
    detail = str(error).partition("It said:")[2]
    return error.status in _REFUSAL_STATUSES and bool(_FUNCTION_WORDS.search(detail))


MAX_OBJECT_STARTS = 50
# Stops at the next <think>: searching for a missing end from each start would take quadratic time.
THINKING = re.compile(r"<think>(?:(?!<think>).)*?</think>", re.DOTALL)


def json_objects(answer: AIMessage) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the JSON objects of an answer, each with the name of its function."""
    for call in answer.tool_calls:
        yield call["name"], call["args"]
    for value in _objects_in_text(THINKING.sub("", answer.text)):
        yield "", value


def _objects_in_text(text: str) -> Iterator[dict[str, Any]]:
    """Yield the object if the whole text is JSON, otherwise each JSON object in the text."""
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
    """Return the value if it is an object, or parse it if it is the JSON text of one; otherwise None."""
    try:
        parsed = json.loads(value, strict=False) if isinstance(value, str) else value
        json.dumps(parsed, ensure_ascii=False).encode()  # a lone surrogate cannot be sent
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def local_today() -> date:
    """Return today's date in the time zone of the process."""
    return datetime.now().astimezone().date()
