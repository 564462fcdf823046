"""Joined chunks and partial arguments are what LangChain makes of them, without its quadratic time."""

import json
from itertools import pairwise
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk
from langchain_core.messages.tool import ToolCallChunk, tool_call_chunk
from langchain_core.utils import json as langchain_json

from toolweave.message_chunks import BATCH_SIZE, ChunkJoiner, parse_partial_json

WHOLE = [
    '{"a": "x\\"y\\\\", "b": [1, -2.5e3, {"c": null, "d": true}], "é": "\\u00e9 😀", "e": {}}',
    '{\n  "text": "line\nline",\n  "list": [\n    [],\n    "]}"\n  ]\n}',
    '[1, {"a": NaN}, "b"]',
    '"text"',
    "",
]
TYPED = {"output_version": "v1"}
MALFORMED = [
    "ne\\nline",
    "{]",
    '{"a": 1}}',
    '{"a": 1,, "b": [2',
    '{"a": x, "b": [1, 2]}',
    '{"a" 1}',
    "{'a': 1}",
    '{"a": [1, 2], "b": x, "c": [',
    '{"a": [[1, 2], [3, 4]], "b": x, "c": [[',
    '{"a": "\\x"}',
    '{"a": 01}',
    "-",
    "[" * 5_000,
]


def outcome(parse: Any, text: str) -> str:
    try:
        return repr(parse(text))
    except (ValueError, RecursionError) as error:
        return type(error).__name__


@pytest.mark.parametrize("text", [*WHOLE, *MALFORMED])
def test_every_beginning_of_a_text_is_read_as_langchain_reads_it(text: str) -> None:
    for end in range(min(len(text), 100) + 1):
        expected = outcome(langchain_json.parse_partial_json, text[:end])
        assert (text[:end], outcome(parse_partial_json, text[:end])) == (text[:end], expected)


def call(args: str | None, index: int | None = 0, name: str | None = None, id: str | None = None) -> ToolCallChunk:  # noqa: A002 - its field
    return tool_call_chunk(name=name, args=args, id=id, index=index)


def chunk(*calls: ToolCallChunk, content: str = "", **fields: Any) -> AIMessageChunk:
    return AIMessageChunk(content=content, tool_call_chunks=list(calls), **fields)


@pytest.mark.parametrize(
    "chunks",
    [
        [chunk(content="a"), chunk(content="b", id="run-1"), chunk(chunk_position="last")],
        [chunk(content="a", id="x"), chunk(call("", name="t", id="1")), chunk(call('{"a"')), chunk(call(": 1}"))],
        [chunk(call('{"a": 1', 0, "t", "1")), chunk(call("{", 1, "u", "2")), chunk(call("}", 0), call("}", 1))],
        [chunk(call("{}", 0, "t", "1")), chunk(call("{}", 0, "u", "2")), chunk(call("", 0, None, "2"))],
        [chunk(call("{}", None, "t", "1")), chunk(call("{}", None, "t", "1"))],
        [chunk(call(None, 0, "na", "1")), chunk(call(None, 0, "me")), chunk(call("[1", 1, "u"))],
        [chunk(call('{"a": "', 0, "t", "1")), *[chunk(call("x"), content="y") for _ in range(BATCH_SIZE + 5)]],
        [
            chunk(call("{", 0, "t", "1"), response_metadata=TYPED),
            chunk(call("}"), chunk_position="last", response_metadata=TYPED),
        ],
        [AIMessageChunk(content=[{"type": "text", "text": "a", "index": 0}]), chunk(call("{}", 0, "t", "1"))],
    ],
)
@pytest.mark.requirement("R-03")
def test_joined_chunks_are_their_sum(chunks: list[AIMessageChunk]) -> None:
    joiner = ChunkJoiner()
    for number, piece in enumerate(chunks, 1):
        joiner.add(piece)
        if number in (1, 2, len(chunks)):
            assert joiner.joined_chunk() == (chunks[0] + chunks[1:number] if number > 1 else chunks[0])
    assert joiner.count == len(chunks)


@pytest.mark.requirement("R-03")
def test_a_long_text_that_is_cut_off_is_parsed_a_few_times() -> None:
    long = json.dumps({"text": "line\n" * 50_000, "list": [[]] * 50_000})
    cuts = [len(long) // 3, len(long) // 2, len(long) - 2]
    for begin, end in pairwise([0, *cuts]):
        assert isinstance(parse_partial_json(long[:end]), dict)
        if begin:
            with pytest.raises(ValueError, match="expected"):
                parse_partial_json(long[begin:end])
