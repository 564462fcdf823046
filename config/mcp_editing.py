"""Edit an mcp.jsonc: enable, disable, add or remove an entry; everything else stays as written (C-09).

Each edit is parsed again, and refused if it means anything else than the old text with the change. The file is replaced
as a whole: another process reads the old file or the new one. The entries to add by name alone are those of
mcp.servers.jsonc, the ready-made servers (D-13).
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

from toolweave.config.documents import MAX_CONFIG_BYTES
from toolweave.config.jsonc import JsoncDocument, Member, ObjectStyle, Writer, parse_jsonc, with_member, without_member
from toolweave.config.mcp import SHIPPED_MCP_CONFIG
from toolweave.config.mcp_entry import SERVER_KEYS
from toolweave.errors import ConfigError
from toolweave.files import locked_folder, make_folder, replace_file


class EntryText:
    """An entry as a file has it, for another file: with the comments in it, and the one on the line above it."""

    def __init__(self, name: str, raw: dict[str, Any], text: str, member: Member) -> None:
        self.name = name
        self.raw = raw
        self._lines = text[member.start : member.end].splitlines()
        *lines, line = text[: member.key.start].splitlines() or [""]
        self._indent = line[: len(line) - len(line.lstrip())]
        before = lines[-1].strip() if lines and not line.strip() else ""
        self.comment = before if before.startswith("//") else ""

    @property
    def description(self) -> str:
        """What the comment above it says."""
        return self.comment.removeprefix("//").strip()

    def write(self, style: ObjectStyle) -> str:
        """Write it with the indentation of its new place."""
        return style.newline.join([self._lines[0], *(self._reindent(line, style) for line in self._lines[1:])])

    def _reindent(self, line: str, style: ObjectStyle) -> str:
        bare = line.lstrip()
        depth = len(line) - len(bare) - len(self._indent)
        return (style.indent + style.unit * (depth // 2) + bare) if bare else ""


def shipped_config_text() -> str:
    """Read the file that we ship."""
    return SHIPPED_MCP_CONFIG.read_text(encoding="utf-8")


@cache
def ready_made_servers() -> Mapping[str, EntryText]:
    """Return the entries of the file that we ship, by name, in its order."""
    return parse_entries(shipped_config_text())


def parse_entries(text: str) -> dict[str, EntryText]:
    """Return the entries of a file, by name."""
    document, top = _parse_document(text)
    entries: dict[str, Any] = document.value[top]
    return {name: EntryText(name, entries[name], text, at) for name, at in document.members[top,].by_name.items()}


def entry_names(text: str) -> list[str]:
    """Name the entries, in their order."""
    document, top = _parse_document(text)
    return list(document.value[top])


def with_enabled(text: str, name: str, *, enabled: bool) -> str:
    """Write `enabled` (or `disabled`, where the entry has that) as wanted; the same text where it says so already."""
    document, top = _parse_document(text)
    entry: dict[str, Any] = document.value[top][name]
    key = "disabled" if "disabled" in entry else "enabled"
    wanted = enabled if key == "enabled" else not enabled
    if entry.get(key, key == "enabled") is wanted:
        return text
    edited = with_member(document, (top, name), key, wanted)
    return _verify_edit(edited, document, {name: {**entry, key: wanted}})


def with_entry(text: str, name: str, entry: Mapping[str, Any] | EntryText) -> str:
    """Put an entry in the place of the one of that name, or at the end; one of another file with its comments."""
    document, top = _parse_document(text)
    raw = entry.raw if isinstance(entry, EntryText) else dict(entry)
    write: Writer = partial(_multiline_entry, raw)
    above = ""
    if isinstance(entry, EntryText) and not _is_plain_json(text):
        write, above = entry.write, entry.comment
    return _verify_edit(with_member(document, (top,), name, raw, write, comment=above), document, {name: raw})


def without_entry(text: str, name: str, *, comment: str = "") -> str:
    """Take an entry out, with the comments in it and behind it on its line; those above it stay, but for this one."""
    document, top = _parse_document(text)
    return _verify_edit(without_member(document, (top,), name, comment=comment), document, {name: None})


def _parse_document(text: str) -> tuple[JsoncDocument, str]:
    document = parse_jsonc(text, source="mcp.jsonc")
    return document, next(key for key in SERVER_KEYS if key in document.value)


def _multiline_entry(entry: Mapping[str, Any], style: ObjectStyle) -> str:
    """Write an entry with one member a line."""
    inner = style.indent + style.unit
    members = [f"{inner}{json.dumps(key)}: {json.dumps(item, ensure_ascii=False)}" for key, item in entry.items()]
    return style.newline.join(("{", f",{style.newline}".join(members), f"{style.indent}}}"))


def _is_plain_json(text: str) -> bool:
    """Say whether a text is plain JSON, which some clients read only."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _verify_edit(edited: str, document: JsoncDocument, change: Mapping[str, Any]) -> str:
    """Return the edited text if it means what the document does with these entries changed; None removes one.

    Raises:
        ConfigError: it means something else.
    """
    top = next(key for key in SERVER_KEYS if key in document.value)
    entries = {name: entry for name, entry in {**document.value[top], **change}.items() if entry is not None}
    try:
        found = parse_jsonc(edited, source="the edited text").value
    except ConfigError:
        found = None
    # As texts: 1, 1.0 and true are equal in Python, and the order of the servers counts.
    if json.dumps(found) != json.dumps({**document.value, top: entries}):
        raise ConfigError(
            "this file is written in a way that cannot be edited without changing something else.",
            fix="Make the change by hand.",
        )
    return edited


_BOM = "\ufeff"


def edit_file(path: Path, edit: Callable[[str], str]) -> bool:
    """Give the text of a file to `edit` and write what comes back, with the mode of before; say whether it differs.

    A link stays one: what it leads to is edited. Of two processes at once the second one edits what the first has
    written. A byte order mark and the ends of lines are kept; `edit` does not see the mark.

    Raises:
        ConfigError: the file cannot be read or written, or would be too large; it is as before then.
    """
    target = Path(os.path.realpath(path))
    with _as_config_errors(path), locked_folder(target.parent):
        before = target.read_bytes()
        text = before.decode("utf-8")
        mark = _BOM if text.startswith(_BOM) else ""
        after = (mark + edit(text.removeprefix(mark))).encode("utf-8")
        if after == before:
            return False
        if len(after) > MAX_CONFIG_BYTES:
            raise ConfigError("would be larger than 256 KiB.", source=str(path), fix="Remove what is not needed.")
        if not os.access(target, os.W_OK):
            raise PermissionError("it is read-only")
        replace_file(target, after, like=target.stat())
        return True


def create_file(path: Path, text: str) -> bool:
    """Write a new file, for its owner only, and the folders to it; say whether there was none.

    Raises:
        ConfigError: it cannot be written.
    """
    with _as_config_errors(path):
        make_folder(path.parent)
        with locked_folder(path.parent):
            if os.path.lexists(path):
                return False
            replace_file(path, text.encode("utf-8"))
        return True


@contextmanager
def _as_config_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise ConfigError(error.message, source=error.source or str(path), fix=error.fix) from None
    except UnicodeDecodeError:
        raise ConfigError("is not UTF-8 text.", source=str(path), fix="Save it as UTF-8.") from None
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        raise ConfigError(
            f"cannot be written ({reason}).", source=str(path), fix="Make the file and its folder writable."
        ) from None
