"""Join the chunks of a model's message and parse its tool calls, in time proportional to its length.

LangChain parses the arguments of every chunk, and of every sum of chunks, as partial JSON. If that fails it tries all
shorter texts: 300 kB in two chunks block the event loop for three minutes.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.messages import AIMessageChunk, InvalidToolCall, ToolCall, ToolCallChunk
from langchain_core.messages.tool import invalid_tool_call, tool_call, tool_call_chunk
from langchain_core.utils import json as langchain_json
from pydantic_core import from_json

BATCH_SIZE = 256
# LangChain parses a text of this length in at most a millisecond.
MAX_LANGCHAIN_CHARS = 200


class ChunkJoiner:
    """Join chunks one by one; the result equals LangChain's `+`."""

    def __init__(self) -> None:
        self._joined: AIMessageChunk | None = None
        self._pending: list[AIMessageChunk] = []
        self._calls = _ToolCalls()
        self.count = 0

    def add(self, chunk: AIMessageChunk) -> None:
        """Add the next chunk."""
        self.count += 1
        # Content of v1 contains the tool calls, too, which LangChain synchronizes.
        if chunk.tool_call_chunks and chunk.response_metadata.get("output_version") != "v1":
            self._calls.add(chunk.tool_call_chunks)
            chunk = set_tool_calls(chunk.model_copy(), [])
        self._pending.append(chunk)
        if len(self._pending) == BATCH_SIZE:
            self._join_pending()

    def joined_chunk(self) -> AIMessageChunk:
        """Return the sum of all chunks so far; there must be at least one."""
        joined = self._join_pending()
        calls = self._calls.joined()
        return set_tool_calls(joined.model_copy(), calls) if calls else joined

    def _join_pending(self) -> AIMessageChunk:
        pending, self._pending = self._pending, []
        first, *others = pending if self._joined is None else (self._joined, *pending)
        self._joined = first + others
        return self._joined


def set_tool_calls(chunk: AIMessageChunk, calls: list[ToolCallChunk]) -> AIMessageChunk:
    """Set a chunk's tool calls to these, which may be partial; return the chunk."""
    chunk.tool_call_chunks = calls
    chunk.tool_calls, chunk.invalid_tool_calls = _parse_calls(calls)
    return chunk


def parse_partial_json(text: str) -> Any:
    """Parse JSON whose end may be missing, like LangChain's function of this name.

    A long partial text must be well-formed up to its end.

    Raises:
        ValueError: the text is not the start of any JSON.
    """
    if len(text) <= MAX_LANGCHAIN_CHARS:
        return langchain_json.parse_partial_json(text)
    try:
        return json.loads(text, strict=False)
    except json.JSONDecodeError:
        return from_json(text, allow_partial="trailing-strings")


class _ToolCalls:
    """The tool calls of a message, with their arguments as lists of pieces."""

    def __init__(self) -> None:
        self._calls: list[ToolCallChunk] = []
        self._arguments: list[list[str]] = []
        self._positions: dict[int | str, list[int]] = {}

    def add(self, chunks: Iterable[ToolCallChunk]) -> None:
        for chunk in chunks:
            position = self._find_or_add_call(chunk)
            call, pieces = self._calls[position], self._arguments[position]
            call["name"] = _concatenate(call["name"], chunk["name"])
            call["id"] = call["id"] if call["id"] == chunk["id"] else _concatenate(call["id"], chunk["id"])
            if chunk["args"] is not None:
                pieces.append(chunk["args"])

    def joined(self) -> list[ToolCallChunk]:
        for pieces in self._arguments:
            pieces[:] = ["".join(pieces)] if pieces else []
        return [
            tool_call_chunk(name=call["name"], args=pieces[0] if pieces else None, id=call["id"], index=call["index"])
            for call, pieces in zip(self._calls, self._arguments, strict=True)
        ]

    def _find_or_add_call(self, chunk: ToolCallChunk) -> int:
        """Return the position of the call that a chunk continues (same index, no other id); else add a call."""
        index: Any = chunk["index"]
        joins = isinstance(index, int) or (isinstance(index, str) and index.startswith("lc_"))
        positions = self._positions.setdefault(index, []) if joins else []
        for position in positions:
            if not self._calls[position]["id"] or not chunk["id"] or self._calls[position]["id"] == chunk["id"]:
                return position
        self._calls.append(tool_call_chunk(name=None, args=None, id=None, index=index))
        self._arguments.append([])
        positions.append(len(self._calls) - 1)
        return positions[-1]


def _concatenate(left: str | None, right: str | None) -> str | None:
    return left if right is None else right if left is None else left + right


def _parse_calls(chunks: Sequence[ToolCallChunk]) -> tuple[list[ToolCall], list[InvalidToolCall]]:
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
