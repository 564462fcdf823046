"""Read JSON5 (comments, trailing commas, bare keys) and remember the line of every key and item."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import json5

from toolweave.config.configuration_text import configuration_text
from toolweave.errors import ConfigError

JsonPath = tuple[str | int, ...]

_TOKEN = re.compile(
    r"""(?P<skip>[\s\ufeff]+|//[^\n\r\u2028\u2029]*|/\*.*?\*/)
    |(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<mark>[{}\[\]:,])
    |(?P<word>[^\s\ufeff{}\[\]:,"'/]+)""",
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, slots=True, repr=False)
class JsoncDocument:
    """A parsed document: its value and the line (from 1) where each key or item starts, by path."""

    value: Any
    lines: Mapping[JsonPath, int]
    source: str

    def place(self, path: JsonPath) -> str:
        """Name file and line of `path`, or of its nearest parent; what was never text has no lines."""
        if not self.lines:
            return self.source
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.source}:{self.lines.get(path, 1)}"


class Token(NamedTuple):
    """A string, a mark such as { or a comma, or a bare word; where in the text it begins, and on which line."""

    text: str
    start: int
    line: int

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.start + len(self.text)


class _Pairs(list[tuple[str, Any]]):
    """An object's members in the order of the text, repeated keys included."""


def read_jsonc(path: Path) -> JsoncDocument:
    """Read and parse a JSON5 file.

    Raises:
        ConfigError: the file is absent, unreadable, over 256 KiB, not UTF-8 or not JSON5; names file, line and fix.
    """
    return parse_jsonc(configuration_text(path), source=str(path))


def parse_jsonc(text: str, *, source: str) -> JsoncDocument:
    """Parse JSON5 text; `source` names it in errors.

    Raises:
        ConfigError: a syntax error or a repeated key, with its line and never the text around it.
    """
    if not text.strip():
        raise ConfigError("the file is empty.", source=source, fix="Write at least {}.")
    try:
        pairs, problem, position = _parsed(text)
    except RecursionError:
        raise ConfigError("is nested too deeply.", source=source, fix="Remove the needless nesting.") from None
    if problem is not None:
        raise _syntax_error(text, problem, position, source)
    lines: dict[JsonPath, int] = {}
    value = _Locator(text, lines, source).locate(pairs, ())
    return JsoncDocument(value=value, lines=lines, source=source)


@lru_cache(maxsize=8)
def _parsed(text: str) -> tuple[Any, str | None, int]:
    """Parse text; an edit reads the same one several times, and the library takes 20 ms for each kB."""
    parsed: tuple[Any, str | None, int] = json5.parse(text, object_pairs_hook=_Pairs)
    return parsed


def _syntax_error(text: str, problem: str, position: int, source: str) -> ConfigError:
    if not problem.startswith("<string>"):
        return ConfigError("a number has too many digits.", source=source, fix="Shorten it.")
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    found = f"unexpected {text[position]!r}" if position < len(text) else "the text ends too early"
    return ConfigError(
        f"not valid JSON5: {found} at column {column}.",
        source=f"{source}:{line}",
        fix="Check quotes, commas and brackets there and just before.",
    )


class _Locator:
    """Walk a parsed value beside the tokens of its text, which the parser has found valid."""

    def __init__(self, text: str, lines: dict[JsonPath, int], source: str) -> None:
        self._tokens = list(tokens(text))
        self._next = 0
        self._lines = lines
        self._source = source

    def locate(self, value: Any, path: JsonPath) -> Any:
        """Note the lines of `value` and all it holds; give it back with dicts for objects."""
        line = self._take()
        self._lines.setdefault(path, line)
        if isinstance(value, _Pairs):
            members: dict[str, Any] = {}
            for written, item in value:
                key = _joined_surrogates(written)
                self._note_key(key, path)
                self._take()  # the colon
                members[key] = self.locate(item, (*path, key))
                self._take_comma()
            self._take()
            return members
        if isinstance(value, list):
            items = []
            for index, item in enumerate(value):
                items.append(self.locate(item, (*path, index)))
                self._take_comma()
            self._take()
            return items
        return _joined_surrogates(value) if isinstance(value, str) else value

    def _take(self) -> int:
        token = self._tokens[self._next]
        self._next += 1
        return token.line

    def _take_comma(self) -> None:
        if self._tokens[self._next].text == ",":
            self._next += 1

    def _note_key(self, key: str, path: JsonPath) -> None:
        line = self._take()
        if (*path, key) in self._lines:
            raise ConfigError(
                f"the key {key!r} is there twice, first on line {self._lines[*path, key]}.",
                source=f"{self._source}:{line}",
                fix="Keep one of the two.",
            )
        self._lines[*path, key] = line


def _joined_surrogates(text: str) -> str:
    """Make one character of the two escapes JSON needs beyond U+FFFF; json5 leaves them apart."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def tokens(text: str) -> Iterator[Token]:
    """Take apart a text that is valid JSON5; what is between two tokens is white space and comments."""
    line = 1
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "skip":
            yield Token(match.group(), match.start(), line)
        line += match.group().count("\n")
