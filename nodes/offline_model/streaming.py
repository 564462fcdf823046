"""Cut a finished message into the chunks that a streaming model would send."""

import json
import re
from collections.abc import Iterator

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk

_WORD = re.compile(r"\s*\S+\s*?(?=\s|$)|\s+")
_ARGUMENTS_PIECE = 24


def chunks_of(message: AIMessage) -> Iterator[ChatGenerationChunk]:
    """Yield the text word by word and the arguments of each call piece by piece; usage comes with the last chunk."""
    text = message.content if isinstance(message.content, str) else ""
    for word in _WORD.findall(text):
        yield ChatGenerationChunk(message=AIMessageChunk(content=word))
    for index, call in enumerate(message.tool_calls):
        arguments = json.dumps(call["args"], ensure_ascii=False)
        opening = tool_call_chunk(name=call["name"], args="", id=call["id"], index=index)
        yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[opening]))
        for start in range(0, len(arguments), _ARGUMENTS_PIECE):
            piece = tool_call_chunk(args=arguments[start : start + _ARGUMENTS_PIECE], index=index)
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[piece]))
    yield ChatGenerationChunk(
        message=AIMessageChunk(
            content="",
            usage_metadata=message.usage_metadata,
            response_metadata=message.response_metadata,
            chunk_position="last",
        )
    )
