"""Ask the model for one answer, streamed, and make sure that the answer is whole."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, InvalidToolCall, ToolCall, ToolCallChunk
from langchain_core.messages.tool import invalid_tool_call, tool_call
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphBubbleUp

from toolweave.errors import ModelError
from toolweave.message_chunks import ChunkJoiner
from toolweave.nodes.agent_state import Status
from toolweave.nodes.model_failure import explain_model_failure

ModelRunnable = Runnable[LanguageModelInput, AIMessage]
_CUT_BY: dict[str, Status] = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
    "safety": "content_filter",
}


async def model_turn(model: ModelRunnable, prompt: Sequence[AnyMessage], config: RunnableConfig) -> AIMessage:
    """Return the model's answer; what it streams reaches LangGraph's "messages" stream through `config`.

    Raises:
        ModelError: the endpoint refused, failed, timed out, or ended in the middle of its answer.
    """
    try:
        answer = await _streamed(model, prompt, config)
    except (GraphBubbleUp, ModelError):
        raise
    except Exception as error:
        status = getattr(error, "status_code", None)
        failure = ModelError(explain_model_failure(error), status=status if isinstance(status, int) else None)
        if hasattr(error, "status_code"):
            # An endpoint's refusal can quote the key, and the log shows a cause with its text.
            raise failure from None
        raise failure from error
    return _checked(answer)


async def _streamed(model: ModelRunnable, prompt: Sequence[AnyMessage], config: RunnableConfig) -> AIMessage | None:
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
    return _merged(joiner.whole()) if joiner.count else first


def answer_status(answer: AIMessage) -> Status:
    """Tell from the finish reason how an answer without tool calls ended."""
    return _CUT_BY.get(_finish_reason(answer).lower(), "done")


def _checked(answer: AIMessage | None) -> AIMessage:
    if answer is None:
        raise ModelError("The model endpoint sent an empty answer.")
    reason = _finish_reason(answer)
    if reason == "error" or (not reason and answer.response_metadata.get("model_provider") == "openai"):
        raise ModelError("The model endpoint ended its answer before it was complete. Please try again.")
    return answer


def _merged(merged: AIMessageChunk) -> AIMessage:
    calls, invalid = _parse_strictly(merged.tool_call_chunks)
    return AIMessage(
        content=_well_formed(merged.content) if isinstance(merged.content, str) else merged.content,
        id=merged.id,
        name=merged.name,
        additional_kwargs=merged.additional_kwargs,
        response_metadata=merged.response_metadata,
        usage_metadata=merged.usage_metadata,
        tool_calls=calls,
        invalid_tool_calls=invalid,
    )


def _parse_strictly(chunks: Sequence[ToolCallChunk]) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    """Parse whole arguments only: LangChain completes cut-off JSON, and half a title is not what was asked for."""
    calls: list[ToolCall] = []
    invalid: list[InvalidToolCall] = []
    for chunk in chunks:
        raw = _well_formed(chunk["args"] or "{}")
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


def _well_formed(text: str) -> str:
    """Join characters that came in halves, as from endpoints that cut their stream between them; mark lone halves."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _finish_reason(answer: AIMessage) -> str:
    metadata = answer.response_metadata
    return str(metadata.get("finish_reason") or metadata.get("stop_reason") or "")
