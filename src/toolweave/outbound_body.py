"""Read an answer's body up to a limit that counts what it unpacks to (W-09): a gzip bomb stays small here."""

import asyncio
import zlib
from collections.abc import AsyncIterable

from toolweave.errors import OutboundFailed

# What read_body unpacks, and so the only coding to ask for.
ACCEPTED = "gzip"
_GZIP_HEADER = 15 + 16
# Joined gzip files are legal; thousands of empty ones in a row only waste time.
_MOST_MEMBERS = 100
# A body may come in pieces of any size; each costs time, however small.
MOST_PIECES = 100_000
_PIECES_AT_ONCE = 50


async def read_body(chunks: AsyncIterable[bytes], coding: str, limit: int) -> bytes:
    """Read and unpack a body of at most `limit` bytes.

    Raises:
        OutboundFailed: it is larger, in too many pieces, packed in another way, or broken.
    """
    body = bytearray()
    received = pieces = 0
    unpacking = _unpacking(coding)
    async for chunk in chunks:
        received += len(chunk)
        pieces += 1
        if pieces % _PIECES_AT_ONCE == 0:
            await asyncio.sleep(0)
        if pieces > MOST_PIECES:
            raise OutboundFailed("The answer comes in too many pieces.", reason="too_large")
        body += chunk if unpacking is None else unpacking.take(chunk, limit + 1 - len(body))
        if max(received, len(body)) > limit:
            raise OutboundFailed(f"The answer is larger than {limit} bytes.", reason="too_large")
    if unpacking is not None and received and not unpacking.complete:
        raise OutboundFailed("The packed answer ends in the middle.", reason="transfer")
    return bytes(body)


def _unpacking(coding: str) -> "_Unpacking | None":
    name = coding.strip().lower()
    if name in ("", "identity"):
        return None
    if name in ("gzip", "x-gzip"):
        return _Unpacking()
    raise OutboundFailed("The answer is packed in a way that was not asked for.", reason="transfer")


class _Unpacking:
    """Unpack gzip piece by piece, never more than is asked for."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_GZIP_HEADER)
        self._members = 1

    @property
    def complete(self) -> bool:
        """Say whether the packed data has come to its end."""
        return self._stream.eof

    def take(self, chunk: bytes, most: int) -> bytes:
        """Unpack a chunk into at most `most` bytes; what would be more is not made."""
        unpacked = bytearray()
        try:
            while chunk and len(unpacked) < most:
                if self._stream.eof:
                    self._next_member()
                unpacked += self._stream.decompress(chunk, most - len(unpacked))
                chunk = self._stream.unused_data
        except zlib.error:
            raise OutboundFailed("The packed answer is broken.", reason="transfer") from None
        return bytes(unpacked)

    def _next_member(self) -> None:
        self._members += 1
        if self._members > _MOST_MEMBERS:
            raise OutboundFailed("The packed answer has too many parts.", reason="transfer")
        self._stream = zlib.decompressobj(_GZIP_HEADER)
