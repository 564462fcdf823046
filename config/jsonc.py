"""Read JSON5 (comments, trailing commas, bare keys) with the line of every key and item, and edit one member of it.

An edit leaves comments, order and notation of everything else as they are.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import json5

from toolweave.config.documents import ConfigDocument, JsonPath, configuration_text
from toolweave.errors import ConfigError

_TOKEN = re.compile(
    r"""(?P<skip>[\s\ufeff]+|//[^\n\r\u2028\u2029]*|/\*.*?\*/)
    |(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<mark>[{}\[\]:,])
    |(?P<word>[^\s\ufeff{}\[\]:,"'/]+)""",
    re.DOTALL | re.VERBOSE,
)


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


def read_jsonc(path: Path) -> ConfigDocument:
    """Read and parse a JSON5 file.

    Raises:
        ConfigError: the file is absent, unreadable, over 256 KiB, not UTF-8 or not JSON5; names file, line and fix.
    """
    return parse_jsonc(configuration_text(path), source=str(path))


def parse_jsonc(text: str, *, source: str) -> ConfigDocument:
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
    return ConfigDocument(value=value, lines=lines, source=source)


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


_NESTING = {"{": 1, "[": 1, "}": -1, "]": -1}


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an object: its key, from where to where its value goes, and where its comma is, if any."""

    key: Token
    start: int
    end: int
    comma: int | None

    @property
    def whole_end(self) -> int:
        """Where it ends, its comma included."""
        return self.end if self.comma is None else self.comma + 1


@dataclass(frozen=True, slots=True)
class Members:
    """An object's members in the order of the text; `start` is its opening brace, `close` the closing one."""

    start: int
    close: int
    each: tuple[Member, ...]


def members_at(text: str, value: Any, path: Sequence[str]) -> Members:
    """Find the members of the object at `path`.

    Args:
        text: valid JSON5 in which no object has a key twice.
        value: what it was parsed to.
        path: the keys that lead to the object.
    """
    found = list(tokens(text))
    index = 0
    members = _members(found, index)
    for key in path:
        member = members.each[list(value).index(key)]
        index = next(number for number, token in enumerate(found) if token.start == member.start)
        members, value = _members(found, index), value[key]
    return members


def _members(found: Sequence[Token], index: int) -> Members:
    """Find those of the object whose opening brace is the token at `index`."""
    start = found[index].start
    each: list[Member] = []
    index += 1
    while found[index].text != "}":
        key, first = found[index], index + 2
        last = _last_of_value(found, first)
        comma = found[last + 1].start if found[last + 1].text == "," else None
        each.append(Member(key, found[first].start, found[last].end, comma))
        index = last + (1 if comma is None else 2)
    return Members(start, found[index].start, tuple(each))


def _last_of_value(found: Sequence[Token], index: int) -> int:
    depth = 0
    while True:
        depth += _NESTING.get(found[index].text, 0)
        if depth == 0:
            return index
        index += 1


_LINE_ENDS = "\n\r\u2028\u2029"
_REST_OF_LINE = re.compile(
    rf"[^\S{_LINE_ENDS}]*(?:/\*[^{_LINE_ENDS}]*?\*/[^\S{_LINE_ENDS}]*)*(?://[^{_LINE_ENDS}]*)?(?:\r\n|[{_LINE_ENDS}])"
)
_SPACES = re.compile(rf"[^\S{_LINE_ENDS}]*")
_BARE_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


@dataclass(frozen=True, slots=True)
class Style:
    """How what is new is to be written: as what is there.

    `indent` begins the line of a member and `unit` is what each deeper level adds; `quote` is that of keys, or empty.
    """

    indent: str
    unit: str
    newline: str
    quote: str
    on_one_line: bool

    def key(self, name: str) -> str:
        """Write a key."""
        if not self.quote and _BARE_KEY.fullmatch(name):
            return name
        quote = self.quote or '"'
        return f"{quote}{name}{quote}"


Write = Callable[[Style], str]
"""Write a value; its first line is not indented. It must be valid JSON5."""


def replaced(text: str, members: Members, index: int, write: Write) -> str:
    """Put another value in the place of a member's."""
    member = members.each[index]
    return text[: member.start] + write(style_of(text, members)) + text[member.end :]


def appended(text: str, members: Members, name: str, write: Write, *, above: str = "") -> str:
    """Add a member at the end of an object, with a comma after it if the last one has one.

    `name` needs no escapes. `above` is a comment for the line above it, if it gets lines of its own.
    """
    style = style_of(text, members)
    last = members.each[-1] if members.each else None
    after = last.whole_end if last else members.start + 1
    comma = "," if last and last.comma is not None else ""
    member = f"{style.key(name)}: {write(style)}{comma}"
    if above and not style.on_one_line:
        member = f"{above}{style.newline}{style.indent}{member}"
    line = _line_start(text, members.close)
    if style.on_one_line:
        position, new = after, f" {member}"
    elif line >= after and not text[line : members.close].strip():
        position, new = line, f"{style.indent}{member}{style.newline}"
    elif last:
        position, new = after, f"{style.newline}{style.indent}{member}"
    else:
        position, new = members.close, f"{style.newline}{style.indent}{member}{style.newline}{_indent(text, after)}"
    head = text[:position]
    if last and last.comma is None:
        head = f"{head[: last.end]},{head[last.end :]}"
    return head + new + text[position:]


def removed(text: str, members: Members, index: int, *, above: str = "") -> str:
    """Take a member away, and its lines if nothing else is on them but a comment behind it.

    The line before goes with it if it is `above`; other comments there may be about anything.
    """
    member = members.each[index]
    start, end = member.key.start, member.whole_end
    line = _line_start(text, start)
    rest = _REST_OF_LINE.match(text, end)
    has_lines = rest is not None and not text[line:start].strip()
    if rest and has_lines:
        start, end = line, rest.end()
        before_it = _line_start(text, max(line - (2 if text[:line].endswith("\r\n") else 1), 0))
        if above and text[before_it:line].strip() == above:
            start = before_it
    elif member.comma is not None:
        found = _SPACES.match(text, end)
        end = found.end() if found else end
    before = members.each[index - 1] if index and member.comma is None else None
    if before is None or before.comma is None:
        return text[:start] + text[end:]
    # What is the last one now has no comma behind it either.
    between = text[before.comma + 1 : start]
    return text[: before.comma] + (between if has_lines or between.strip() else "") + text[end:]


def style_of(text: str, members: Members) -> Style:
    """See how an object is written."""
    outer = _indent(text, members.start)
    indent, unit, quote = "", "\t" if "\t" in outer else "  ", '"'
    on_one_line = bool(members.each) and not any(end in text[members.start : members.close] for end in _LINE_ENDS)
    if members.each:
        first = members.each[0].key
        if not text[_line_start(text, first.start) : first.start].strip():
            indent = _indent(text, first.start)
        quote = first.text[0] if first.text[0] in "\"'" else ""
    if indent.startswith(outer) and indent != outer:
        unit = indent.removeprefix(outer)
    newline = "\r\n" if "\r\n" in text else "\n"
    return Style(indent or outer + unit, unit, newline, quote, on_one_line)


def _line_start(text: str, position: int) -> int:
    return max(text.rfind(end, 0, position) for end in _LINE_ENDS) + 1


def _indent(text: str, position: int) -> str:
    """Give the white space that begins the line of a position."""
    found = _SPACES.match(text, _line_start(text, position))
    return found.group() if found else ""
