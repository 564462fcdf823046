"""Name the events of the `messages` stream mode: metadata once per message, then what is there of it so far (6.1)."""

from dataclasses import dataclass
from typing import Any

import orjson
from langchain_core.messages import AIMessageChunk, BaseMessage, BaseMessageChunk, message_chunk_to_message

from toolweave.message_chunks import ChunkJoiner
from toolweave.runtime.streaming.codec import dumps

TEXT_FIRST = b'{"content":"'


@dataclass(frozen=True, slots=True)
class Part:
    """One event of a stream: its name, with the subgraph namespace after `|`, and its payload."""

    event: str
    payload: object


class MessageParts:
    """Give the `messages` mode's events; what is kept of a message lives as long as the run."""

    def __init__(self) -> None:
        self._so_far: dict[str, MessageSoFar] = {}
        self._announced: set[str] = set()

    def parts(self, payload: tuple[BaseMessage, dict[str, Any]], suffix: str) -> list[Part]:
        """Name the events for one message or message chunk."""
        message, metadata = payload
        key = str(message.id)
        parts = []
        if key not in self._announced:
            self._announced.add(key)
            parts.append(Part(f"messages/metadata{suffix}", {key: {"metadata": metadata}}))
        if isinstance(message, BaseMessageChunk):
            so_far = self._so_far.setdefault(key, MessageSoFar())
            parts.append(Part(f"messages/partial{suffix}", [so_far.with_chunk(message)]))
        else:
            parts.append(Part(f"messages/complete{suffix}", [message]))
        return parts


class MessageSoFar:
    """A message that grows chunk by chunk, as JSON.

    Every event repeats the whole message. A chunk that only adds text, as nearly all do, therefore adds to the JSON of
    the one before: making it anew each time from objects takes most of a stream's time.
    """

    def __init__(self) -> None:
        self._joiner = ChunkJoiner()
        self._added: list[str] = []
        self._text = bytearray()
        self._rest = b""

    def with_chunk(self, chunk: BaseMessageChunk) -> object:
        """Add a chunk; gives what is there now, ready for the encoder."""
        if self._rest and _only_text(chunk):
            try:
                self._text += orjson.dumps(chunk.content)[1:-1]
            except TypeError:
                # Half a character: the slow way knows what to do.
                return self._merged(chunk)
            self._added.append(str(chunk.content))
            return orjson.Fragment(b"".join((TEXT_FIRST, self._text, self._rest)))
        return self._merged(chunk)

    def _merged(self, chunk: BaseMessageChunk) -> object:
        if not isinstance(chunk, AIMessageChunk):
            self._joiner, self._rest = ChunkJoiner(), b""
            self._added.clear()
            return message_chunk_to_message(chunk)
        if added := "".join(self._added):
            self._joiner.add(AIMessageChunk(content=added))
        self._added.clear()
        self._joiner.add(chunk)
        message = message_chunk_to_message(self._joiner.whole())
        self._split(message)
        return message

    def _split(self, message: BaseMessage) -> None:
        """Take the message's JSON apart behind its text, if text is what it begins with."""
        self._text, self._rest = bytearray(), b""
        if isinstance(message.content, str):
            text, data = dumps(message.content)[1:-1], dumps(message)
            begins = TEXT_FIRST + text
            if data.startswith(begins + b'"'):
                self._text += text
                self._rest = data[len(begins) :]


def _only_text(chunk: BaseMessageChunk) -> bool:
    return (
        type(chunk) is AIMessageChunk
        and isinstance(chunk.content, str)
        and chunk.chunk_position is None
        and chunk.usage_metadata is None
        and not (chunk.tool_call_chunks or chunk.tool_calls or chunk.invalid_tool_calls)
        and not (chunk.additional_kwargs or chunk.response_metadata)
    )
