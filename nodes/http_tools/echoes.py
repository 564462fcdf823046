"""Take credentials out of what an API answers: some repeat the request, above all in their errors (W-08).

Only what was really sent is looked for, in the spellings that URLs, JSON, HTML and base64 give it.
"""

import asyncio
import json
import re
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator
from html import escape
from urllib.parse import quote, quote_plus

from toolweave.redact import HIDDEN

# Shorter ones could be a part of any word; they are hidden where they stand alone.
SHORTEST_INSIDE = 8
# Of longer ones only the usual spellings are looked for: every mixture of them would take long. So would making the
# expressions for many characters that are spelled in several ways.
LONGEST_SPELLED = 200
MOST_SPELLED = 400
# More than this takes so long to prepare that others wait.
_LARGE = 4_000
# These stand for themselves everywhere.
_PLAIN = re.compile(r"[A-Za-z0-9_.~-]+")
_PERCENT = re.compile(r"%[0-9A-F]{2}")
_RUNS = re.compile(r"[A-Za-z0-9_.~-]+|\\+|.", re.DOTALL)


class Echoes:
    """The credentials of one request."""

    def __init__(self, secrets: Iterable[str]) -> None:
        longest_first = sorted(set(secrets), key=len, reverse=True)
        self._forms = tuple(form for secret in longest_first for form in _in_base64(secret))
        patterns, literal, room = [], [], MOST_SPELLED
        for secret in reversed(longest_first):
            room -= len(secret) - sum(map(len, _PLAIN.findall(secret)))
            if len(secret) > LONGEST_SPELLED or room < 0:
                literal.append(secret)
            else:
                patterns.append(_pattern(secret))
        self._literal = tuple(form for secret in reversed(literal) for form in _usual_forms(secret))
        self._patterns = tuple(reversed(patterns))

    @property
    def weight(self) -> int:
        """Say how many times a text is looked through."""
        return len(self._patterns) + len(self._forms) + len(self._literal)

    def heard(self, text: str) -> bool:
        """Say whether a text repeats one."""
        if any(form in text for form in (*self._literal, *self._forms)):
            return True
        return any(pattern.search(text) for pattern in self._patterns)

    def hide(self, text: str) -> str:
        """Return a text without them."""
        for form in self._literal:
            text = text.replace(form, HIDDEN)
        for pattern in self._patterns:
            text = pattern.sub(HIDDEN, text)
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        return text

    def hide_bytes(self, data: bytes) -> bytes:
        """Return bytes without them."""
        text = data.decode("utf-8", "surrogateescape")
        return self.hide(text).encode("utf-8", "surrogateescape") if self.heard(text) else data

    def hide_number(self, number: float) -> float | str:
        """Return a number, unless it is one of them."""
        text = str(number)
        return HIDDEN if any(pattern.fullmatch(text) for pattern in self._patterns) else number


async def echoes_of(secrets: Collection[str]) -> Echoes:
    """Make what looks for these; that of many, or long ones, is made on a thread."""
    if sum(map(len, secrets)) > _LARGE:
        return await asyncio.to_thread(Echoes, secrets)
    return Echoes(secrets)


def _pattern(secret: str) -> re.Pattern[str]:
    written = "".join(_spellings(run) for run in _RUNS.findall(secret))
    if len(secret) < SHORTEST_INSIDE:
        written = rf"(?<![A-Za-z0-9]){written}(?![A-Za-z0-9])"
    return re.compile(written)


def _in_base64(secret: str) -> Iterator[str]:
    """Give what base64 makes of a secret, whatever stands around it: of its first and last bytes that is not known."""
    data = secret.encode("utf-8", "surrogateescape")
    for before in range(3) if len(data) >= SHORTEST_INSIDE else ():
        end = (before + len(data)) * 8 // 6
        form = b64encode(bytes(before) + data).decode()[(before * 8 + 5) // 6 : end]
        yield from dict.fromkeys((form, form.replace("+", "-").replace("/", "_")))


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
