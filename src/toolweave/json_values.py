"""Count the values of a JSON text before it is parsed, so that no text blocks everybody while it is (R-03).

A parser written in C holds the GIL for its whole call: on a thread it blocks the event loop just as long. How long
depends on the number of values, not of bytes: 32 MiB in one string take 60 ms, in empty lists 7 s.
"""

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Parsed by orjson in at most 70 ms whatever the values are (50 to 340 ns each); what walks them afterwards is bounded.
MAX_VALUES = 200_000
SLICE_BYTES = 256 * 1024
LARGE_BYTES = 64 * 1024
VALUE_MARKS = (b",", b"[", b"{")


@contextmanager
def pause_gc() -> Iterator[None]:
    """Parse without garbage collection, which finds nothing in JSON: worth it from `LARGE_BYTES`.

    It takes longer than parsing: 200 000 values start it hundreds of times, also over all that the process has.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class ValueCounter:
    """Count the commas and opening brackets of JSON outside of its strings, in pieces as they come.

    A text with n of them has at most n + 1 values.
    """

    def __init__(self) -> None:
        self._in_string = False
        self._edge = b""

    def add(self, piece: bytes) -> int:
        """Count those of the next piece."""
        text = (self._edge + piece).replace(b"\\\\", b"")
        self._edge = b"\\" if text.endswith(b"\\") else b""
        parts = text.removesuffix(b"\\").replace(b'\\"', b"").split(b'"')
        outside = b"".join(parts[self._in_string :: 2])
        self._in_string ^= len(parts) % 2 == 0
        return _count_marks(outside)


def too_many_values_text(limit: int = MAX_VALUES) -> str:
    """Say why a text was refused and what to do."""
    return (
        f"The JSON has more than {limit:,} values (objects, lists, texts, numbers …), the most that are read at once. "
        "Send less at a time, or send large data as one text, such as base64 or JSON in a string."
    )


async def has_more_values(text: bytes, limit: int = MAX_VALUES) -> bool:
    """Say whether a JSON text has more than `most` values; other tasks run between the slices of a long one."""
    # The marks in strings count at first, which is much faster and enough for nearly every text.
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
