"""Edit an mcp.jsonc: enable, disable, add or remove an entry; all other text stays as written (C-09).

Each edited text is parsed again, and rejected if anything but the intended change differs. The file is replaced
atomically. The entries of mcp.servers.jsonc, the ready-made servers, can be added by name (D-13).
"""

import json
import os
import re
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
from toolweave.files import lock_folder, make_folder, replace_file

_LINE_BREAK = re.compile(r"\r\n?|\n")


class EntryText:
    """The text of an entry, to copy it into another file with its comments and the comment above it."""

    def __init__(self, name: str, raw: dict[str, Any], text: str, member: Member) -> None:
        self.name = name
        self.raw = raw
        # Not `splitlines`, which also splits at characters that a text in the entry may have, such as U+0085.
        self._lines = _LINE_BREAK.split(text[member.start : member.end])
        *lines, line = _LINE_BREAK.split(text[: member.key.start])
        self._indent = line[: len(line) - len(line.lstrip())]
        before = lines[-1].strip() if lines and not line.strip() else ""
        self.comment = before if before.startswith("//") else ""

    @property
    def description(self) -> str:
        """The text of the comment above the entry."""
        return self.comment.removeprefix("//").strip()

    def write(self, style: ObjectStyle) -> str:
        """Return the text of the entry in the style of another object."""
        return style.newline.join([self._lines[0], *(self._reindent(line, style) for line in self._lines[1:])])

    def _reindent(self, line: str, style: ObjectStyle) -> str:
        bare = line.lstrip()
        depth = len(line) - len(bare) - len(self._indent)
        return (style.indent + style.unit * (depth // 2) + bare) if bare else ""


def shipped_config_text() -> str:
    """Return the text of the shipped file."""
    return SHIPPED_MCP_CONFIG.read_text(encoding="utf-8")


@cache
def ready_made_servers() -> Mapping[str, EntryText]:
    """Return the entries of the shipped file by name, in its order."""
    return parse_entries(shipped_config_text())


def parse_entries(text: str) -> dict[str, EntryText]:
    """Return the entries of a file by name."""
    document, top = _parse_document(text)
    entries: dict[str, Any] = document.value[top]
    return {name: EntryText(name, entries[name], text, at) for name, at in document.members[top,].by_name.items()}


def entry_names(text: str) -> list[str]:
    """Return the names of the entries, in their order."""
    document, top = _parse_document(text)
    return list(document.value[top])


def with_enabled(text: str, name: str, *, enabled: bool) -> str:
    """Return the text with an entry enabled or disabled, by its key `enabled`, or `disabled` if it has that."""
    document, top = _parse_document(text)
    entry: dict[str, Any] = document.value[top][name]
    key = "disabled" if "disabled" in entry else "enabled"
    value = enabled if key == "enabled" else not enabled
    return text if entry.get(key, key == "enabled") is value else with_value(text, name, key, value)


def with_value(text: str, name: str, key: str, value: Any) -> str:
    """Return the text with a key of an entry replaced, or added at its end."""
    document, top = _parse_document(text)
    edited = with_member(document, (top, name), key, value)
    return _verify_edit(edited, document, {name: {**document.value[top][name], key: value}})


def with_entry(text: str, name: str, entry: Mapping[str, Any] | EntryText) -> str:
    """Return the text with an entry replaced, or added at the end; an EntryText keeps its comments."""
    document, top = _parse_document(text)
    raw = entry.raw if isinstance(entry, EntryText) else dict(entry)
    write: Writer = partial(_multiline_entry, raw)
    above = ""
    if isinstance(entry, EntryText) and not _is_plain_json(text):
        write, above = entry.write, entry.comment
    return _verify_edit(with_member(document, (top,), name, raw, write, comment=above), document, {name: raw})


def without_entry(text: str, name: str, *, comment: str = "") -> str:
    """Return the text without an entry and its comments; of the comments above it only `comment` is removed."""
    document, top = _parse_document(text)
    return _verify_edit(without_member(document, (top,), name, comment=comment), document, {name: None})


def _parse_document(text: str) -> tuple[JsoncDocument, str]:
    document = parse_jsonc(text, source="mcp.jsonc")
    for key in SERVER_KEYS:
        if key in document.value:
            return document, key
    raise ConfigError('has no "mcpServers" key.', fix='Write {"mcpServers": {…}} around its servers.')


def _multiline_entry(entry: Mapping[str, Any], style: ObjectStyle) -> str:
    """Return an entry with one member per line."""
    inner = style.indent + style.unit
    members = [f"{inner}{json.dumps(key)}: {json.dumps(item, ensure_ascii=False)}" for key, item in entry.items()]
    return style.newline.join(("{", f",{style.newline}".join(members), f"{style.indent}}}"))


def _is_plain_json(text: str) -> bool:
    """Return whether a text is plain JSON: some clients read nothing else."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _verify_edit(edited: str, document: JsoncDocument, change: Mapping[str, Any]) -> str:
    """Return the edited text if it equals the document with these entries changed; None means removed.

    Raises:
        ConfigError: anything else differs.
    """
    top = next(key for key in SERVER_KEYS if key in document.value)
    entries = {name: entry for name, entry in {**document.value[top], **change}.items() if entry is not None}
    try:
        parsed = parse_jsonc(edited, source="the edited text").value
    except ConfigError:
        parsed = None
    # Compared as JSON text: 1, 1.0 and true are equal in Python, and the order of the servers matters.
    if json.dumps(parsed) != json.dumps({**document.value, top: entries}):
        raise ConfigError(
            "the file cannot be edited without changing other parts of it.", fix="Make the change by hand."
        )
    return edited


_BOM = "\ufeff"


def edit_file(path: Path, edit: Callable[[str], str]) -> bool:
    """Replace the text of a file by the result of `edit`; return whether it changed.

    The target of a link is edited. A lock serialises the edits of several processes. The file mode, a byte order mark
    and line ends are preserved; `edit` gets the text without the mark.

    Raises:
        ConfigError: the file cannot be read or written, or would be too large; it is unchanged then.
    """
    target = Path(os.path.realpath(path))
    with _as_config_errors(path), lock_folder(target.parent):
        before = target.read_bytes()
        text = before.decode("utf-8")
        bom = _BOM if text.startswith(_BOM) else ""
        after = (bom + edit(text.removeprefix(bom))).encode("utf-8")
        if after == before:
            return False
        if len(after) > MAX_CONFIG_BYTES:
            raise ConfigError("would be larger than 256 KiB.", source=str(path), fix="Remove unused entries.")
        if not os.access(target, os.W_OK):
            raise PermissionError("it is read-only")
        replace_file(target, after, like=target.stat())
        return True


def create_file(path: Path, text: str) -> bool:
    """Create a file that only its owner can read, and its folders; return False if it exists.

    Raises:
        ConfigError: it cannot be written.
    """
    with _as_config_errors(path):
        make_folder(path.parent)
        with lock_folder(path.parent):
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
