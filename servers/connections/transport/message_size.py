"""Bound what one message of a server may take: split lines of any length in bounded memory.

A message over the limit is dropped as it comes in. The request it answers can still be told, because an id stands at
one end or the other of what every JSON library writes. Nor is one parsed that has so many values that all other
servers and users would wait for it: the SDK needs up to four microseconds for each.
"""

import re
from dataclasses import dataclass

MESSAGE_LIMIT = 32 * 1024 * 1024
MOST_VALUES = 300_000
TOO_LARGE = f"it sent a message of more than {MESSAGE_LIMIT >> 20} MiB or {MOST_VALUES} values"
EDGE = 256

_ID_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*,\s*"(?:result|error)"')
_ID_LAST = re.compile(rb'"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')


@dataclass(frozen=True, slots=True)
class Oversize:
    """What is left of a message over the limit: the request it answers, None where that does not show."""

    request_id: int | None


class ValueCount:
    """Count the commas of JSON outside of its strings, in pieces as they come."""

    def __init__(self) -> None:
        self.commas = 0
        self._in_string = False
        self._edge = b""

    @property
    def is_over(self) -> bool:
        """Say whether there are more values than are parsed."""
        return self.commas >= MOST_VALUES

    def add(self, piece: bytes) -> None:
        """Count a piece."""
        text = (self._edge + piece).replace(b"\\\\", b"")
        self._edge = b"\\" if text.endswith(b"\\") else b""
        parts = text.removesuffix(b"\\").replace(b'\\"', b"").split(b'"')
        self.commas += b"".join(parts[self._in_string :: 2]).count(b",")
        self._in_string ^= len(parts) % 2 == 0


def has_too_many_values(message: bytes) -> bool:
    """Say so of a whole message; for one with fewer commas it takes no time."""
    if message.count(b",") < MOST_VALUES:
        return False
    count = ValueCount()
    count.add(message)
    return count.is_over


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
