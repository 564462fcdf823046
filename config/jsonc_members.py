"""Find where in a JSON5 text the members of an object are, so that one can be changed and the rest left alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolweave.config.jsonc import Token, tokens

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
