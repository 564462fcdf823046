"""Read JSON5 (comments, trailing commas, bare keys) with the position of each key and item, and edit one member.

An edit leaves comments, order and notation of all other parts unchanged.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import json5

from toolweave.config.documents import MAX_CONFIG_BYTES, ConfigDocument, JsonPath, read_config_text
from toolweave.errors import ConfigError

_TOKEN = re.compile(
    r"""(?P<skip>[\s\ufeff]+|//[^\n\r\u2028\u2029]*|/\*.*?\*/)
    |(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<mark>[{}\[\]:,])
    |(?P<word>[^\s\ufeff{}\[\]:,"'/]+)""",
    re.DOTALL | re.VERBOSE,
)
_LINE_ENDS = "\n\r\u2028\u2029"
_BLANK_TO_LINE_END = re.compile(
    rf"[^\S{_LINE_ENDS}]*(?:/\*[^{_LINE_ENDS}]*?\*/[^\S{_LINE_ENDS}]*)*(?://[^{_LINE_ENDS}]*)?(?:\r\n|[{_LINE_ENDS}])"
)
_SPACES = re.compile(rf"[^\S{_LINE_ENDS}]*")


class Token(NamedTuple):
    """A string, a mark such as { or a comma, or a bare word, with its position and line."""

    text: str
    start: int
    end: int
    line: int


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an object: its key, its value's position, and its end with the comma if there is one."""

    key: Token
    start: int
    end: int
    end_with_comma: int

    @property
    def has_comma(self) -> bool:
        """Return whether a comma follows the member."""
        return self.end_with_comma > self.end


@dataclass(frozen=True, slots=True)
class Members:
    """An object's members in the order of the text; `start` and `end` are the positions of its braces."""

    start: int
    end: int
    by_name: Mapping[str, Member]


@dataclass(frozen=True, slots=True, repr=False)
class JsoncDocument(ConfigDocument):
    """A parsed JSON5 text; `members` maps an object's path to the positions of its members, for edits."""

    text: str
    members: Mapping[JsonPath, Members]


class _Pairs(list[tuple[str, Any]]):
    """An object's members in the order of the text, repeated keys included."""


def read_jsonc(path: Path, max_bytes: int = MAX_CONFIG_BYTES) -> JsoncDocument:
    """Read and parse a JSON5 file.

    Raises:
        ConfigError: the file is absent, unreadable, over `max_bytes`, not UTF-8 or not JSON5; names file, line and fix.
    """
    return parse_jsonc(read_config_text(path, max_bytes), source=str(path))


def parse_jsonc(text: str, *, source: str) -> JsoncDocument:
    """Parse JSON5 text; `source` names it in errors.

    Raises:
        ConfigError: a syntax error or a repeated key, with its line and never the text around it.
    """
    if not text.strip():
        raise ConfigError("the file is empty.", source=source, fix="Write at least {}.")
    try:
        pairs, problem, position = _parse_json5(text)
    except RecursionError:
        raise ConfigError("is nested too deeply.", source=source, fix="Remove the needless nesting.") from None
    if problem is not None:
        raise _syntax_error(text, problem, position, source)
    locator = _Locator(text, source)
    value = locator.locate(pairs, ())
    return JsoncDocument(value=value, lines=locator.lines, source=source, text=text, members=locator.members)


@lru_cache(maxsize=8)
def _parse_json5(text: str) -> tuple[Any, str | None, int]:
    """Parse text, cached: an edit parses the same text several times, and the library needs 20 ms per kB.

    Plain JSON, such as the large file of Claude Code, needs no library.
    """
    with suppress(ValueError):
        return json.loads(text, object_pairs_hook=_Pairs), None, 0
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
    """Finds the positions of a parsed value's parts by walking it together with the tokens of its valid text."""

    def __init__(self, text: str, source: str) -> None:
        self.lines: dict[JsonPath, int] = {}
        self.members: dict[JsonPath, Members] = {}
        self._tokens = list(_tokenize(text))
        self._next = 0
        self._source = source

    def locate(self, value: Any, path: JsonPath) -> Any:
        """Record the positions of `value` and its parts; return it with dicts for objects."""
        first = self._take_token()
        self.lines.setdefault(path, first.line)
        if isinstance(value, _Pairs):
            return self._object(value, path, first)
        if isinstance(value, list):
            items = []
            for index, item in enumerate(value):
                items.append(self.locate(item, (*path, index)))
                self._skip_comma()
            self._take_token()
            return items
        return _join_surrogates(value) if isinstance(value, str) else value

    def _object(self, pairs: _Pairs, path: JsonPath, opening: Token) -> dict[str, Any]:
        value: dict[str, Any] = {}
        each: dict[str, Member] = {}
        for raw_name, item in pairs:
            name, key = _join_surrogates(raw_name), self._take_token()
            if name in each:
                raise ConfigError(
                    f"the key {name!r} is repeated; it is first on line {each[name].key.line}.",
                    source=f"{self._source}:{key.line}",
                    fix="Keep one of the two.",
                )
            self.lines[*path, name] = key.line
            self._take_token()  # the colon
            start = self._tokens[self._next].start
            value[name] = self.locate(item, (*path, name))
            each[name] = Member(key, start, self._tokens[self._next - 1].end, self._skip_comma())
        self.members[path] = Members(opening.start, self._take_token().start, each)
        return value

    def _take_token(self) -> Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _skip_comma(self) -> int:
        """Skip a comma if there is one; return the end of the last token."""
        if self._tokens[self._next].text == ",":
            self._next += 1
        return self._tokens[self._next - 1].end


def _join_surrogates(text: str) -> str:
    """Join the two escapes of a character beyond U+FFFF, which json5 leaves as surrogates."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _tokenize(text: str) -> Iterator[Token]:
    """Yield the tokens of valid JSON5; only white space and comments are between them."""
    line = 1
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "skip":
            yield Token(match.group(), match.start(), match.end(), line)
        line += match.group().count("\n")


@dataclass(frozen=True, slots=True)
class ObjectStyle:
    """The notation of an object's members, for new members.

    `indent` is the indentation of a member, `unit` what each deeper level adds.
    """

    indent: str
    unit: str
    newline: str
    is_single_line: bool


Writer = Callable[[ObjectStyle], str]
"""A function that writes a value as valid JSON5, without indenting the first line."""


def with_member(
    document: JsoncDocument, path: JsonPath, name: str, value: Any, write: Writer | None = None, *, comment: str = ""
) -> str:
    """Return the text with a member of the object at `path` replaced, or added at the end.

    A new member has its key in double quotes, and a comma after it if the last member has one. The value is written as
    JSON on one line, or by `write` if the object has several lines. `comment` is written on the line above.
    """
    text, members = document.text, document.members[path]
    style = _object_style(text, members)
    value_text = write(style) if write and not style.is_single_line else json.dumps(value, ensure_ascii=False)
    if existing := members.by_name.get(name):
        return text[: existing.start] + value_text + text[existing.end :]
    last = list(members.by_name.values())[-1] if members.by_name else None
    member = f"{json.dumps(name)}: {value_text}{',' if last and last.has_comma else ''}"
    if style.is_single_line:
        end = last.end_with_comma if last else members.start + 1
        head, new, tail = text[:end], f" {member}", text[end:]
    else:
        head, tail = text[: members.end].rstrip(" \t"), text[members.end :]
        lines = [f"{style.indent}{comment}"] if comment else []
        lines += [f"{style.indent}{member}", _line_indent(text, members.start)]
        new = ("" if head[-1] in _LINE_ENDS else style.newline) + style.newline.join(lines)
    if last and not last.has_comma:
        head = f"{head[: last.end]},{head[last.end :]}"
    return head + new + tail


def without_member(document: JsoncDocument, path: JsonPath, name: str, *, comment: str = "") -> str:
    """Return the text without a member of the object at `path`.

    Its lines are removed if they contain nothing else but a comment after it. The line above is removed only if it
    equals `comment`, because another comment may be about other members.
    """
    text, each = document.text, document.members[path].by_name
    member = each[name]
    start, end = member.key.start, member.end_with_comma
    line = _line_start(text, start)
    rest = _BLANK_TO_LINE_END.match(text, end)
    has_lines = rest is not None and not text[line:start].strip()
    if rest and has_lines:
        start, end = line, rest.end()
        before_it = _line_start(text, max(line - (2 if text[:line].endswith("\r\n") else 1), 0))
        if comment and text[before_it:line].strip() == comment:
            start = before_it
    elif member.has_comma:
        found = _SPACES.match(text, end)
        end = found.end() if found else end
    place = list(each).index(name)
    before = list(each.values())[place - 1] if place and not member.has_comma else None
    if before is None or not before.has_comma:
        return text[:start] + text[end:]
    # The new last member has no comma either.
    between = text[before.end_with_comma : start]
    return text[: before.end_with_comma - 1] + (between if has_lines or between.strip() else "") + text[end:]


def _object_style(text: str, members: Members) -> ObjectStyle:
    outer = _line_indent(text, members.start)
    indent, unit = "", "\t" if "\t" in outer else "  "
    on_one_line = bool(members.by_name) and not any(end in text[members.start : members.end] for end in _LINE_ENDS)
    if members.by_name:
        first = next(iter(members.by_name.values())).key
        if not text[_line_start(text, first.start) : first.start].strip():
            indent = _line_indent(text, first.start)
    if indent.startswith(outer) and indent != outer:
        unit = indent.removeprefix(outer)
    newline = "\r\n" if "\r\n" in text else "\n"
    return ObjectStyle(indent or outer + unit, unit, newline, on_one_line)


def _line_start(text: str, position: int) -> int:
    return max(text.rfind(end, 0, position) for end in _LINE_ENDS) + 1


def _line_indent(text: str, position: int) -> str:
    """Return the indentation of the line at a position."""
    found = _SPACES.match(text, _line_start(text, position))
    return found.group() if found else ""
