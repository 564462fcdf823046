"""Count the values of a JSON text before it is parsed, so that parsing cannot block the event loop for long (R-03).

A parser written in C holds the GIL for its whole call, so it blocks the event loop from a thread, too. The time
depends on the number of values, not of bytes: 32 MiB in one string take 60 ms, in empty lists 7 s.
"""

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# orjson parses these in at most 70 ms (50 to 340 ns per value); code that processes them has its own limits.
MAX_VALUES = 200_000
SLICE_BYTES = 256 * 1024
LARGE_BYTES = 64 * 1024
VALUE_MARKS = (b",", b"[", b"{")


@contextmanager
def pause_gc() -> Iterator[None]:
    """Disable garbage collection in the block that parses JSON, which creates no garbage; useful from `LARGE_BYTES`.

    Collection takes longer than parsing: 200 000 values start it hundreds of times, some over the whole process.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class ValueCounter:
    """Count the commas and opening brackets of JSON outside of its strings, piece by piece.

    A text with n of them has at most n + 1 values.
    """

    def __init__(self) -> None:
        self._in_string = False
        self._edge = b""

    def add(self, piece: bytes) -> int:
        """Return the count of the next piece."""
        text = (self._edge + piece).replace(b"\\\\", b"")
        self._edge = b"\\" if text.endswith(b"\\") else b""
        parts = text.removesuffix(b"\\").replace(b'\\"', b"").split(b'"')
        outside = b"".join(parts[self._in_string :: 2])
        self._in_string ^= len(parts) % 2 == 0
        return _count_marks(outside)


def too_many_values_text(limit: int = MAX_VALUES) -> str:
    """Return the message for a text with too many values."""
    return (
        f"The JSON has more than {limit:,} values (objects, lists, texts, numbers …), the most that are read at once. "
        "Send less at a time, or send large data as one text, such as base64 or JSON in a string."
    )


async def has_more_values(text: bytes, limit: int = MAX_VALUES) -> bool:
    """Return whether a JSON text has more than `limit` values; yields to other tasks between slices of a long text."""
    # First count the marks in strings, too, which is much faster and enough for nearly every text.
    return await _exceeds(text, limit, _count_marks) and await _exceeds(text, limit, ValueCounter().add)


def _count_marks(text: bytes) -> int:
    return sum(map(text.count, VALUE_MARKS))


async def _exceeds(text: bytes, limit: int, count: Callable[[bytes], int]) -> bool:
    if len(text) <= limit:
        return False
    values = 0
    for start in range(0, len(text), SLICE_BYTES):
        values += count(text[start : start + SLICE_BYTES])
        if values > limit:
            return True
        await asyncio.sleep(0)
    return False
