"""Join the chunks of a model's answer, and read the tool calls in them, in time proportional to their length.

LangChain parses the arguments of every chunk, and of every sum of chunks, as JSON that may be cut off. Where that does
not parse it tries all shorter texts: 300 kB in two chunks block the event loop for three minutes.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.messages import AIMessageChunk, InvalidToolCall, ToolCall, ToolCallChunk
from langchain_core.messages.tool import invalid_tool_call, tool_call, tool_call_chunk
from langchain_core.utils import json as langchain_json
from pydantic_core import from_json

BATCH = 256
# LangChain reads a piece of so many characters in a millisecond at most.
SHORT = 200


class ChunkJoiner:
    """Join chunks as they come; the result is the one of LangChain's `+`."""

    def __init__(self) -> None:
        self._whole: AIMessageChunk | None = None
        self._waiting: list[AIMessageChunk] = []
        self._calls = _Calls()
        self.count = 0

    def add(self, chunk: AIMessageChunk) -> None:
        """Add the next chunk."""
        self.count += 1
        if chunk.tool_call_chunks and not _has_typed_content(chunk):
            self._calls.add(chunk.tool_call_chunks)
            chunk = with_calls(chunk.model_copy(), [])
        self._waiting.append(chunk)
        if len(self._waiting) == BATCH:
            self._fold()

    def whole(self) -> AIMessageChunk:
        """Give the sum of all chunks so far, of which there is at least one."""
        folded = self._fold()
        calls = self._calls.joined()
        return with_calls(folded.model_copy(), calls) if calls else folded

    def _fold(self) -> AIMessageChunk:
        waiting, self._waiting = self._waiting, []
        first, *others = waiting if self._whole is None else (self._whole, *waiting)
        self._whole = first + others
        return self._whole


def with_calls(chunk: AIMessageChunk, calls: list[ToolCallChunk]) -> AIMessageChunk:
    """Set a chunk's tool calls to what these are, as far as they have come; gives the chunk."""
    chunk.tool_call_chunks = calls
    chunk.tool_calls, chunk.invalid_tool_calls = _read(calls)
    return chunk


def parse_partial_json(text: str) -> Any:
    """Parse JSON whose end may be missing, as LangChain's function of this name does.

    A long text that is cut off has to be well-formed up to there.

    Raises:
        ValueError: it is no beginning of any JSON.
    """
    if len(text) <= SHORT:
        return langchain_json.parse_partial_json(text)
    try:
        return json.loads(text, strict=False)
    except json.JSONDecodeError:
        return from_json(text, allow_partial="trailing-strings")


class _Calls:
    """The tool calls of an answer, their arguments in the pieces that came."""

    def __init__(self) -> None:
        self._calls: list[ToolCallChunk] = []
        self._arguments: list[list[str]] = []
        self._places: dict[int | str, list[int]] = {}

    def add(self, chunks: Iterable[ToolCallChunk]) -> None:
        for chunk in chunks:
            place = self._place_of(chunk)
            call, pieces = self._calls[place], self._arguments[place]
            call["name"] = _sum(call["name"], chunk["name"])
            call["id"] = call["id"] if call["id"] == chunk["id"] else _sum(call["id"], chunk["id"])
            if chunk["args"] is not None:
                pieces.append(chunk["args"])

    def joined(self) -> list[ToolCallChunk]:
        for pieces in self._arguments:
            pieces[:] = ["".join(pieces)] if pieces else []
        return [
            tool_call_chunk(name=call["name"], args=pieces[0] if pieces else None, id=call["id"], index=call["index"])
            for call, pieces in zip(self._calls, self._arguments, strict=True)
        ]

    def _place_of(self, chunk: ToolCallChunk) -> int:
        """Find the call that a chunk goes on with: that of its index whose id is not another; else begin one."""
        index: Any = chunk["index"]
        joins = isinstance(index, int) or (isinstance(index, str) and index.startswith("lc_"))
        places = self._places.setdefault(index, []) if joins else []
        for place in places:
            if not self._calls[place]["id"] or not chunk["id"] or self._calls[place]["id"] == chunk["id"]:
                return place
        self._calls.append(tool_call_chunk(name=None, args=None, id=None, index=index))
        self._arguments.append([])
        places.append(len(self._calls) - 1)
        return places[-1]


def _sum(left: str | None, right: str | None) -> str | None:
    return left if right is None else right if left is None else left + right


def _has_typed_content(chunk: AIMessageChunk) -> bool:
    """Say whether the chunk's content has its tool calls, too, which LangChain keeps in step."""
    return chunk.response_metadata.get("output_version") == "v1"


def _read(chunks: Sequence[ToolCallChunk]) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    calls: list[ToolCall] = []
    invalid: list[InvalidToolCall] = []
    for chunk in chunks:
        try:
            args = parse_partial_json(chunk["args"]) if chunk["args"] else {}
        except (ValueError, RecursionError):
            args = None
        if isinstance(args, dict):
            calls.append(tool_call(name=chunk["name"] or "", args=args, id=chunk["id"]))
        else:
            invalid.append(invalid_tool_call(name=chunk["name"], args=chunk["args"], id=chunk["id"], error=None))
    return calls, invalid
