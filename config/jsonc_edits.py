"""Change one member of an object in a JSON5 text; comments, order and the way it is written stay as they are."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from toolweave.config.jsonc_members import Members

_ENDS = "\n\r\u2028\u2029"
_REST_OF_LINE = re.compile(rf"[^\S{_ENDS}]*(?:/\*[^{_ENDS}]*?\*/[^\S{_ENDS}]*)*(?://[^{_ENDS}]*)?(?:\r\n|[{_ENDS}])")
_SPACES = re.compile(rf"[^\S{_ENDS}]*")
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
    on_one_line = bool(members.each) and not any(end in text[members.start : members.close] for end in _ENDS)
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
    return max(text.rfind(end, 0, position) for end in _ENDS) + 1


def _indent(text: str, position: int) -> str:
    """Give the white space that begins the line of a position."""
    found = _SPACES.match(text, _line_start(text, position))
    return found.group() if found else ""
