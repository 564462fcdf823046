"""Edit the text of an mcp.jsonc: switch an entry on or off, add one, take one out; all else stays as written (C-09).

Every edit is parsed again, and refused where it would mean anything else than the old text and the change.
"""

import json
from collections.abc import Mapping
from typing import Any

from toolweave.config.jsonc import parse_jsonc
from toolweave.config.jsonc_edits import Style, Write, appended, removed, replaced
from toolweave.config.jsonc_members import Member, members_at
from toolweave.config.mcp_file import SERVER_KEYS
from toolweave.errors import ConfigError

_LITERALS = {True: "true", False: "false"}


class EntryText:
    """An entry as a file has it, for another file: with the comments in it, and the one on the line above it."""

    def __init__(self, text: str, member: Member, value: dict[str, Any]) -> None:
        self.value = value
        self._lines = text[member.start : member.end].splitlines()
        *lines, line = text[: member.key.start].splitlines() or [""]
        self._indent = line[: len(line) - len(line.lstrip())]
        before = lines[-1].strip() if lines and not line.strip() else ""
        self.above = before if before.startswith("//") else ""

    @property
    def about(self) -> str:
        """What the comment above it says."""
        return self.above.removeprefix("//").strip()

    def write(self, style: Style) -> str:
        """Write it with the indentation of its new place; as JSON where its neighbours are on one line."""
        if style.on_one_line:
            return json.dumps(self.value, ensure_ascii=False)
        return style.newline.join([self._lines[0], *(self._moved(line, style) for line in self._lines[1:])])

    def _moved(self, line: str, style: Style) -> str:
        bare = line.lstrip()
        depth = len(line) - len(bare) - len(self._indent)
        return (style.indent + style.unit * (depth // 2) + bare) if bare else ""


def names_in(text: str) -> list[str]:
    """Name the entries, in their order."""
    top, value = _read(text)
    return list(value[top])


def entry_texts(text: str) -> dict[str, EntryText]:
    """Take the entries out of a file, by name."""
    top, value = _read(text)
    members = members_at(text, value, (top,)).each
    named = zip(value[top].items(), members, strict=True)
    return {name: EntryText(text, member, entry) for (name, entry), member in named}


def switched(text: str, name: str, *, on: bool) -> str:
    """Write `enabled` (or `disabled`, where the entry has that) as wanted; the same text where it says so already."""
    top, value = _read(text)
    entry: dict[str, Any] = value[top][name]
    key = "disabled" if "disabled" in entry else "enabled"
    wanted = on if key == "enabled" else not on
    if entry.get(key, key == "enabled") is wanted:
        return text
    members = members_at(text, value, (top, name))
    if key in entry:
        edited = replaced(text, members, list(entry).index(key), lambda _: _LITERALS[wanted])
    else:
        edited = appended(text, members, key, lambda _: _LITERALS[wanted])
    return _checked(edited, {**value, top: {**value[top], name: {**entry, key: wanted}}})


def with_entry(text: str, name: str, entry: Mapping[str, Any] | EntryText) -> str:
    """Put an entry in the place of the one of that name, or at the end; one of another file with its comments."""
    top, value = _read(text)
    members = members_at(text, value, (top,))
    meaning = entry.value if isinstance(entry, EntryText) else dict(entry)
    write, above = _written(meaning), ""
    if isinstance(entry, EntryText) and not _is_strict(text):
        write, above = entry.write, entry.above
    if name in value[top]:
        edited = replaced(text, members, list(value[top]).index(name), write)
    else:
        edited = appended(text, members, name, write, above=above)
    return _checked(edited, {**value, top: {**value[top], name: meaning}})


def without_entry(text: str, name: str, *, above: str = "") -> str:
    """Take an entry out, with the comments in it and behind it on its line; those above it stay, but for this one."""
    top, value = _read(text)
    members = members_at(text, value, (top,))
    edited = removed(text, members, list(value[top]).index(name), above=above)
    return _checked(edited, {**value, top: {key: item for key, item in value[top].items() if key != name}})


def _read(text: str) -> tuple[str, dict[str, Any]]:
    value = parse_jsonc(text, source="mcp.jsonc").value
    return next(key for key in SERVER_KEYS if key in value), value


def _written(entry: Mapping[str, Any]) -> Write:
    """Write an entry with one member a line, or on one line where its neighbours are."""

    def write(style: Style) -> str:
        if style.on_one_line:
            return json.dumps(entry, ensure_ascii=False)
        inner = style.indent + style.unit
        members = [f"{inner}{style.key(key)}: {json.dumps(item, ensure_ascii=False)}" for key, item in entry.items()]
        return style.newline.join(("{", f",{style.newline}".join(members), f"{style.indent}}}"))

    return write


def _is_strict(text: str) -> bool:
    """Say whether a text is plain JSON, for whoever reads nothing else."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _checked(edited: str, meant: dict[str, Any]) -> str:
    try:
        found = parse_jsonc(edited, source="the edited text").value
    except ConfigError:
        found = None
    # As texts: 1, 1.0 and true are equal in Python, and the order of the servers counts.
    if json.dumps(found) != json.dumps(meant):
        raise ConfigError(
            "this file is written in a way that cannot be edited without changing something else.",
            fix="Make the change by hand.",
        )
    return edited
