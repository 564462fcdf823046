"""Write mcp files as people do: JSON5 with comments, commas, indentation and quotes in every style."""

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,6}", fullmatch=True).filter(lambda name: name != "metrics")
SCALARS = st.text(max_size=6) | st.booleans() | st.integers() | st.none()
VALUES = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.text(max_size=4), SCALARS, max_size=2)
ENTRIES = st.fixed_dictionaries(
    {"command": st.sampled_from(["run", "a/b", "{env:X:-y}", "}", "//", "it's"])},
    optional={"args": st.lists(st.text(max_size=5), max_size=2), "note": VALUES},
)
SWITCHES = st.sampled_from(
    [{}, {"enabled": True}, {"enabled": False}, {"disabled": True}, {"disabled": False}, {"enabled": "{env:ON:-true}"}]
)
CONFUSING = st.sampled_from(["{", "},", '"', "it's", '"a": {}', "//", "why"])


@dataclass
class Written:
    """A text, what it means, and its comments: each with the entry that it goes with, if it is in or behind one."""

    text: str
    value: dict[str, Any]
    top: str
    comments: list[tuple[str | None, str]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return list(self.value[self.top])

    def comments_without(self, name: str) -> list[str]:
        """List those that stay when an entry goes, as they follow each other."""
        return sorted((text for owner, text in self.comments if owner != name), key=self.text.index)


class Writer:
    """Writes one text in one style."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._unit = draw(st.sampled_from(["  ", "\t", "    ", ""]))
        self._newline = draw(st.sampled_from(["\n", "\r\n"]))
        self._quote = draw(st.sampled_from(['"', "'", ""]))
        self._trailing = draw(st.booleans())
        self._brace_on_own_line = draw(st.booleans())
        self.comments: list[tuple[str | None, str]] = []

    def object(self, members: dict[str, Any], depth: int, owner: str | None) -> str:
        """Write an object; those at depth 1 are entries."""
        in_lines = self._draw(st.booleans())
        pieces = ["{", self._comment(owner, in_lines)]
        for number, (key, item) in enumerate(members.items()):
            owned = key if depth == 1 else owner
            last = number == len(members) - 1
            if in_lines:
                pieces += [self._newline, *self._lines_above(owner, depth), self._unit * (depth + 1)]
            value = self.object(item, depth + 1, owned) if depth < 2 and isinstance(item, dict) else self.plain(item)
            before = self._comment(owned, False)
            pieces += [self.key(key), before, ":", " " if self._draw(st.booleans()) else "", value]
            pieces += [] if last and not self._trailing else [","]
            # On a line that holds several members, a comment behind one is not known to go with it.
            pieces += [self._comment(owned, True)] if in_lines else [" "]
        on_own_line = in_lines and (self._brace_on_own_line or pieces[-1] or not members)
        pieces += [self._newline, *self._lines_above(owner, depth), self._unit * depth] if on_own_line else []
        return "".join([*pieces, "}"])

    def key(self, name: str) -> str:
        if not self._quote and name.isidentifier() and name.isascii():
            return name
        quote = self._quote or '"'
        return json.dumps(name) if quote == '"' or not name.isalnum() else f"{quote}{name}{quote}"

    def plain(self, value: Any) -> str:
        text = json.dumps(value, ensure_ascii=self._draw(st.booleans()))
        # The library that the tests read with leaves the two halves of such a character apart.
        return text if "\\ud" not in text else json.dumps(value, ensure_ascii=False)

    def _lines_above(self, owner: str | None, depth: int) -> list[str]:
        if comment := self._comment(owner, True):
            return [self._unit * (depth + 1), comment.strip(), self._newline]
        return [self._newline] if self._draw(st.integers(0, 5)) == 0 else []

    def _comment(self, owner: str | None, ends_line: bool) -> str:
        if self._draw(st.integers(0, 3)):
            return ""
        text = f"c{len(self.comments)}: {self._draw(CONFUSING)}"
        line = ends_line and self._draw(st.booleans())
        comment = f"// {text}" if line else f"/* {text} */"
        self.comments.append((owner, comment))
        return f" {comment}"


@st.composite
def mcp_texts(draw: st.DrawFn, min_servers: int = 0) -> Written:
    """Draw a file with some servers."""
    servers = draw(
        st.dictionaries(NAMES, st.builds(lambda a, b: a | b, ENTRIES, SWITCHES), min_size=min_servers, max_size=4)
    )
    top = draw(st.sampled_from(["mcpServers", "servers"]))
    around = draw(st.sampled_from([(), ("$schema",), ("inputs", "$schema")]))
    value: dict[str, Any] = {**dict.fromkeys(around[:1], "x"), top: servers, **{key: [1] for key in around[1:]}}
    writer = Writer(draw)
    text = writer.object(value, 0, None)
    return Written(text, value, top, writer.comments)
