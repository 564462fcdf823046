"""Take credentials out of what an API answers: some repeat the request, above all in their errors (W-08).

Only what was really sent is looked for, in the spellings that URLs, JSON and HTML give it.
"""

import re
from collections.abc import Iterable
from html import escape

from toolweave.redact import HIDDEN

# Shorter ones could be a part of any word; they are hidden where they stand alone.
SHORTEST_INSIDE = 8
# These stand for themselves everywhere.
_PLAIN = re.compile(r"[A-Za-z0-9_.~-]")


class Echoes:
    """The credentials of one request."""

    def __init__(self, secrets: Iterable[str]) -> None:
        longest_first = sorted(set(secrets), key=len, reverse=True)
        self._patterns = tuple(_pattern(secret) for secret in longest_first)

    def heard(self, text: str) -> bool:
        """Say whether a text repeats one."""
        return any(pattern.search(text) for pattern in self._patterns)

    def hide(self, text: str) -> str:
        """Return a text without them."""
        for pattern in self._patterns:
            text = pattern.sub(HIDDEN, text)
        return text

    def hide_bytes(self, data: bytes) -> bytes:
        """Return bytes without them."""
        text = data.decode("utf-8", "surrogateescape")
        return self.hide(text).encode("utf-8", "surrogateescape") if self.heard(text) else data

    def hide_number(self, number: float) -> float | str:
        """Return a number, unless it is one of them."""
        text = str(number)
        return HIDDEN if any(pattern.fullmatch(text) for pattern in self._patterns) else number


def _pattern(secret: str) -> re.Pattern[str]:
    written = "".join(map(_spellings, secret))
    if len(secret) < SHORTEST_INSIDE:
        written = rf"(?<![A-Za-z0-9]){written}(?![A-Za-z0-9])"
    return re.compile(written)


def _spellings(character: str) -> str:
    """Match a character as it is or after backslashes, percent-encoded once or more, or escaped for JSON or HTML."""
    if _PLAIN.fullmatch(character):
        return re.escape(character)
    encoded = "".join(f"%(?:25)*{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
    units = character.encode("utf-16-be", "surrogatepass")
    unicode = "".join(rf"\\+u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
    plain = [rf"\\*{re.escape(character)}", f"(?i:{encoded})", f"(?i:{unicode})"]
    plain += [r"\+"] if character == " " else []
    plain += [re.escape(escape(character)), f"&#{ord(character)};"] if escape(character) != character else []
    return f"(?:{'|'.join(plain)})"
