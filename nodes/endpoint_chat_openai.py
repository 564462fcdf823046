"""A chat model for OpenAI-compatible endpoints whose work per streamed chunk is bounded (R-03)."""

import re
from collections.abc import AsyncIterator
from typing import Any

from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_openai import ChatOpenAI
from openai import APIStatusError
from pydantic import PrivateAttr

from toolweave.message_chunks import ChunkJoiner, set_tool_calls

EMPTY_CHUNK = AIMessageChunk(content="")


# Mistral's API, gateways to Bedrock and older servers refuse the request for token counts, some without a text.
USAGE_REFUSAL = re.compile(r"stream_options|include_usage|^Error code: 4(00|22)$")


class EndpointChatOpenAI(ChatOpenAI):
    """A ChatOpenAI that reads a stream in time proportional to its length, with token counts from any endpoint.

    LangChain requests the counts from OpenAI only. If an endpoint refuses the request, it is sent without.
    """

    stream_usage: bool | None = True

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        joiner, requests_usage = ChunkJoiner(), self.stream_usage
        try:
            async for generation in super()._astream(*args, **kwargs):
                if isinstance(generation, StreamedGenerationChunk):
                    generation.set_joiner(joiner)
                yield generation
                # After the yield, because LangChain sets the chunk's id during it.
                if isinstance(generation.message, AIMessageChunk):
                    joiner.add(generation.message)
        except APIStatusError as error:
            if not requests_usage or not USAGE_REFUSAL.search(str(error)):
                raise
            self.stream_usage = False
            async for generation in self._astream(*args, **kwargs):
                yield generation

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: dict[str, Any] | None
    ) -> ChatGenerationChunk | None:
        arguments = _pop_arguments(chunk)
        made = super()._convert_chunk_to_generation_chunk(chunk, default_chunk_class, base_generation_info)
        if made is None:
            return None
        message = made.message
        if any(arguments) and isinstance(message, AIMessageChunk) and len(message.tool_call_chunks) == len(arguments):
            for call, text in zip(message.tool_call_chunks, arguments, strict=True):
                call["args"] = text or call["args"]
            set_tool_calls(message, message.tool_call_chunks)
        return StreamedGenerationChunk(message=message, generation_info=made.generation_info)


class StreamedGenerationChunk(ChatGenerationChunk):
    """A chunk of an answer; a joiner adds the chunks up while they arrive."""

    _joiner: ChunkJoiner | None = PrivateAttr(None)

    def set_joiner(self, joiner: ChunkJoiner) -> None:
        """Set the joiner of the chunk's answer."""
        self._joiner = joiner

    def __add__(self, other: ChatGenerationChunk | list[ChatGenerationChunk]) -> ChatGenerationChunk:
        """Join chunks with LangChain's result, in linear time."""
        others = other if isinstance(other, list) else [other]
        messages = [one.message for one in (self, *others) if isinstance(one.message, AIMessageChunk)]
        if len(messages) <= len(others):
            return super().__add__(other)
        joiner = self._joiner
        if joiner is None or joiner.count != len(messages):
            joiner = ChunkJoiner()
            for message in messages:
                joiner.add(message)
        informed = [one.generation_info for one in (self, *others) if one.generation_info]
        first, *rest = [ChatGenerationChunk(message=EMPTY_CHUNK, generation_info=info) for info in informed or ({},)]
        return ChatGenerationChunk(message=joiner.joined_chunk(), generation_info=(first + rest).generation_info)


def _pop_arguments(chunk: dict[str, Any]) -> list[str]:
    """Remove the arguments from a chunk's tool calls and return them, so that LangChain does not parse them."""
    choices = chunk.get("choices") or chunk.get("chunk", {}).get("choices") or [{}]
    arguments = []
    for call in (choices[0].get("delta") or {}).get("tool_calls") or ():
        function = call.get("function")
        text = function.get("arguments") if isinstance(function, dict) else None
        arguments.append(text if isinstance(text, str) else "")
        if isinstance(function, dict) and arguments[-1]:
            function["arguments"] = ""
    return arguments
