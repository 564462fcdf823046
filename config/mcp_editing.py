"""Edit an mcp.jsonc: enable, disable, add or remove an entry; everything else stays as written (C-09).

Each edit is parsed again, and refused if it means anything else than the old text with the change. The file is replaced
as a whole: another process reads the old file or the new one. The entries to add by name alone are those of
mcp.servers.jsonc, the ready-made servers (D-13).
"""

import fcntl
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from toolweave.config.documents import MAX_BYTES
from toolweave.config.jsonc import Member, Style, Write, appended, members_at, parse_jsonc, removed, replaced
from toolweave.config.mcp import SHIPPED_MCP_CONFIG, mcp_variables
from toolweave.config.mcp_entry import SERVER_KEYS, read_mcp_file
from toolweave.config.settings import Settings
from toolweave.config.variables import find_references
from toolweave.errors import ConfigError
from toolweave.private_files import make_folder, opened_folder

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


@dataclass(frozen=True, slots=True)
class ReadyMade:
    """An entry of the file that we ship: `about` is the comment above it, `raw` its known keys as written."""

    name: str
    about: str
    raw: Mapping[str, Any]
    text: EntryText

    def variables(self) -> tuple[str, ...]:
        """List the variables that it needs a value of from a person."""
        return find_references(dict(self.raw), mcp_variables(Settings(), {})).missing


@cache
def ready_made() -> Mapping[str, ReadyMade]:
    """Read them, in the order of the file."""
    texts = entry_texts(shipped_text())
    return {
        written.name: ReadyMade(written.name, texts[written.name].about, written.raw, texts[written.name])
        for written in read_mcp_file(SHIPPED_MCP_CONFIG).servers
    }


def shipped_text() -> str:
    """Give the text of the file."""
    return SHIPPED_MCP_CONFIG.read_text(encoding="utf-8")


_BOM = "\ufeff"
Edit = Callable[[str], str]


def edit_file(path: Path, edit: Edit) -> bool:
    """Give the text of a file to `edit` and write what comes back, with the mode of before; say whether it differs.

    A link stays one: what it leads to is edited. Of two processes at once the second one edits what the first has
    written. A byte order mark and the ends of lines are kept; `edit` does not see the mark.

    Raises:
        ConfigError: the file cannot be read or written, or would be too large; it is as before then.
    """
    target = Path(os.path.realpath(path))
    with _explained(path), _locked(target) as before:
        text = before.decode("utf-8")
        mark = _BOM if text.startswith(_BOM) else ""
        after = (mark + edit(text.removeprefix(mark))).encode("utf-8")
        if after == before:
            return False
        if len(after) > MAX_BYTES:
            raise ConfigError("would be larger than 256 KiB.", source=str(path), fix="Remove what is not needed.")
        if not os.access(target, os.W_OK):
            raise PermissionError("it is read-only")
        _replace(target, after)
        return True


def make_file(path: Path, text: str) -> bool:
    """Write a new file, for its owner only, and the folders to it; say whether there was none.

    Raises:
        ConfigError: it cannot be written.
    """
    with _explained(path):
        make_folder(path.parent)
        with opened_folder(path.parent) as folder:
            fcntl.flock(folder, fcntl.LOCK_EX)
            if os.path.lexists(path):
                return False
            with _written_beside(path, text.encode("utf-8")) as written:
                written.rename(path)
            os.fsync(folder)
        return True


@contextmanager
def _locked(target: Path) -> Iterator[bytes]:
    """Hold the lock on a file, which may be replaced while one waits for it; gives its content."""
    while True:
        with target.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _is_still(file, target):
                yield file.read()
                return


def _is_still(file: IO[bytes], target: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), target.stat())
    return False


def _replace(target: Path, content: bytes) -> None:
    was = target.stat()
    with _written_beside(target, content) as written:
        written.chmod(stat.S_IMODE(was.st_mode))
        with suppress(PermissionError):  # another's file: it becomes ours, as with any editor
            os.chown(written, was.st_uid, was.st_gid)
        written.replace(target)
    with opened_folder(target.parent) as folder:
        os.fsync(folder)


@contextmanager
def _written_beside(path: Path, content: bytes) -> Iterator[Path]:
    """Write a file into the same folder, down to the disk; it is removed if the block fails."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    written = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield written
    except BaseException:
        with suppress(OSError):
            written.unlink()
        raise


@contextmanager
def _explained(path: Path) -> Iterator[None]:
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
