"""Bound what one message of a server may take: split lines of any length in bounded memory.

A message over the limit is dropped as it comes in. The request it answers can still be told, because an id stands at
one end or the other of what every JSON library writes. Nor is one parsed that has so many values that all other
servers and users would wait for it.
"""

import re
from dataclasses import dataclass

from toolweave.json_values import MAX_VALUES

MESSAGE_LIMIT = 32 * 1024 * 1024
# Catalogues of thousands of tools come in one message.
MOST_VALUES = 2 * MAX_VALUES
TOO_LARGE = f"it sent a message of more than {MESSAGE_LIMIT >> 20} MiB or {MOST_VALUES} values"
EDGE = 256

_ID_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*,\s*"(?:result|error)"')
_ID_LAST = re.compile(rb'"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')


@dataclass(frozen=True, slots=True)
class Oversize:
    """What is left of a message over the limit: the request it answers, None where that does not show."""

    request_id: int | None


class LineSplitter:
    """Cut a stream of bytes into lines; a line over `limit` bytes comes out as an `Oversize`."""

    def __init__(self, limit: int = MESSAGE_LIMIT) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._head = b""
        self._tail = b""

    def feed(self, data: bytes) -> list[bytes | Oversize]:
        """Return the lines that `data` completes, without their ends."""
        *ends, rest = data.split(b"\n")
        lines = []
        for end in ends:
            self._keep(end)
            lines.append(self._take())
        self._keep(rest)
        return lines

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        self._parts.append(part)
        if self._size > self._limit:
            text = b"".join(self._parts)
            self._head = self._head or text[:EDGE]
            self._tail = (self._tail + text)[-EDGE:]
            self._parts.clear()

    def _take(self) -> bytes | Oversize:
        too_large = self._size > self._limit
        line = b"".join(self._parts)
        found = Oversize(answered_id(self._head, self._tail)) if too_large else line
        self._parts, self._size, self._head, self._tail = [], 0, b"", b""
        return found


def answered_id(head: bytes, tail: bytes) -> int | None:
    """Read the id of the request that a JSON-RPC response answers from the response's two ends."""
    found = _ID_FIRST.match(head) or _ID_LAST.search(tail)
    return int(found[1]) if found else None
