"""Keep a single event of an event stream from filling the memory; everything else passes through untouched."""

import json

from toolweave.json_values import ValueCount
from toolweave.servers.connections.transport.faults import OVERSIZE, error_message
from toolweave.servers.connections.transport.message_size import (
    EDGE,
    MESSAGE_LIMIT,
    MOST_VALUES,
    TOO_LARGE,
    answered_id,
)

# Its name keeps the SDK from parsing what it has got of the event.
GIVEN_UP = b"\nevent: oversize\n\n"
_BLANK_LINES = (b"\n\n", b"\r\n\r\n", b"\r\r")
_OVERLAP = 3
PIECE = 64 * 1024


class EventLimiter:
    """Pass the bytes of an event stream on; of an event that is too large the rest is dropped as it comes.

    That is one over `limit` bytes, or with too many values. Where the dropped event was the answer to a request, an
    error takes its place.
    """

    def __init__(self, limit: int = MESSAGE_LIMIT) -> None:
        self._limit = limit
        self._size = 0
        self._head = b""
        self._edge = b""
        self._values = ValueCount()
        self.is_dropping = False

    def feed(self, chunk: bytes) -> bytes:
        """Return what to pass on in the place of `chunk`."""
        # Decompressed, a chunk can be of any length, with whole events in it.
        pieces = (chunk[begin : begin + PIECE] for begin in range(0, len(chunk), PIECE))
        return b"".join(map(self._feed, pieces))

    def _feed(self, chunk: bytes) -> bytes:
        seen = self._edge + chunk
        if self.is_dropping:
            end = _after_first_blank(seen)
            if end < 0:
                self._edge = seen[-EDGE:]
                return b""
            answered = answered_id(_data(self._head), seen[:end].rstrip())
            self._start(seen[end:])
            return (b"" if answered is None else error_event(answered, OVERSIZE, TOO_LARGE)) + seen[end:]
        end = _after_last_blank(seen)
        if end >= 0:
            self._start(seen[end:])
        else:
            self._size += len(chunk)
            self._values.add(chunk)
            self._head = self._head if len(self._head) == EDGE else (self._head + chunk)[:EDGE]
        self._edge = seen[-_OVERLAP:]
        self.is_dropping = self._size > self._limit or self._values.values > MOST_VALUES
        return GIVEN_UP if self.is_dropping else chunk

    def _start(self, event: bytes) -> None:
        self.is_dropping = False
        self._size, self._head, self._edge = len(event), event[:EDGE], event[-_OVERLAP:]
        self._values = ValueCount()
        self._values.add(event)


def error_event(request_id: int | str, code: int, message: str) -> bytes:
    """Write that error as an event."""
    return f"event: message\ndata: {json.dumps(error_message(request_id, code, message))}\n\n".encode()


def _after_first_blank(text: bytes) -> int:
    return min((at + len(blank) for blank in _BLANK_LINES if (at := text.find(blank)) >= 0), default=-1)


def _after_last_blank(text: bytes) -> int:
    return max(at + len(blank) if (at := text.rfind(blank)) >= 0 else -1 for blank in _BLANK_LINES)


def _data(event: bytes) -> bytes:
    return event.partition(b"data:")[2]
