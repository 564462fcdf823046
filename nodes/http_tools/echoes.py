"""Take credentials out of what an API answers: some repeat the request, above all in their errors (W-08).

Only what was really sent is looked for, in the spellings that URLs, JSON and HTML give it.
"""

import json
import re
from collections.abc import Iterable
from html import escape
from urllib.parse import quote, quote_plus

from toolweave.redact import HIDDEN

# Shorter ones could be a part of any word; they are hidden where they stand alone.
SHORTEST_INSIDE = 8
# Of longer ones only the usual spellings are looked for: every mixture of them would take long.
LONGEST_SPELLED = 200
# These stand for themselves everywhere.
_PLAIN = re.compile(r"[A-Za-z0-9_.~-]+")
_PERCENT = re.compile(r"%[0-9A-F]{2}")
_RUNS = re.compile(r"[A-Za-z0-9_.~-]+|\\+|.", re.DOTALL)


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
    if len(secret) > LONGEST_SPELLED:
        return re.compile("|".join(map(re.escape, _usual_forms(secret))))
    written = "".join(_spellings(run) for run in _RUNS.findall(secret))
    if len(secret) < SHORTEST_INSIDE:
        written = rf"(?<![A-Za-z0-9]){written}(?![A-Za-z0-9])"
    return re.compile(written)


def _usual_forms(secret: str) -> list[str]:
    encoded = [quote(secret, safe=safe, errors="replace") for safe in ("", "/")]
    encoded += [_PERCENT.sub(lambda found: found.group().lower(), encoded[0]), quote(encoded[0], safe="")]
    in_json = [json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]]
    in_json += [in_json[0].replace("/", "\\/"), json.dumps(in_json[0])[1:-1]]
    forms = {secret, escape(secret), quote_plus(secret, errors="replace"), *encoded, *in_json}
    return sorted(forms, key=len, reverse=True)


def _spellings(run: str) -> str:
    """Match plain characters as they are, and another one as it is, percent-encoded, or escaped for JSON or HTML.

    Several backslashes come as one run. Every repetition has an end and never gives back what it has taken, or long
    runs of backslashes would take quadratic time.
    """
    if _PLAIN.fullmatch(run):
        return re.escape(run)
    character = run[0]
    encoded = "".join(f"%(?:25){{0,3}}{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
    units = character.encode("utf-16-be", "surrogatepass")
    unicode = "".join(rf"\\{{1,8}}+u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
    if character == "\\":
        return rf"(?:(?i:{unicode}){{1,16}}+|(?i:{encoded}){{1,16}}+|\\{{1,16}}+)"
    spelled = [rf"\\{{0,8}}+{re.escape(character)}", f"(?i:{encoded})", f"(?i:{unicode})"]
    spelled += [r"\+"] if character == " " else []
    spelled += [re.escape(escape(character)), f"&#{ord(character)};"] if escape(character) != character else []
    return f"(?:{'|'.join(spelled)})"
