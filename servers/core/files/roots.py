"""Open files and folders below the allowed roots, safely even if links and names change meanwhile (C-05).

The kernel never follows a symbolic link for us: we open each part of a path by itself, relative to its open parent
folder, and resolve a link's target in the same way. So the entry that was checked is the entry that is open. Hard
links and mounts within a root look like its own files: the person who creates them decides what is readable. Ignore
rules hide secrets and tools' internal folders. Messages never contain a path, so that they reveal nothing outside.
"""

import errno
import fnmatch
import os
import re
import stat
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from toolweave.errors import ConfigError
from toolweave.servers.error_codes import (
    ACCESS_DENIED,
    FORBIDDEN_PATH,
    NOT_CONFIGURED,
    NOT_FOUND,
    NOT_TEXT,
    UNAVAILABLE,
    ToolFailed,
)

MAX_DEPTH = 64
_MAX_LINKS = 40
# Does not block on a pipe without a writer, and does not acquire a terminal.
_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_ROOT_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_ABSENT_ERRNOS = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL}
_MOUNT_INFO = Path("/proc/self/mountinfo")
_KERNEL_FILE_SYSTEMS = frozenset(
    (
        *("autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs"),
        *("fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs"),
        "tracefs",
    )
)
# Character sets whose meaning Python plans to change.
_AMBIGUOUS_SET = re.compile(r"\[[!^]?\[|\[.*(?:--|&&|~~|\|\|)")
# Whether the rule ignores (True) or includes (False), and the pattern of the entries that it applies to.
Rule = tuple[bool, re.Pattern[str]]


def parse_rule(line: str) -> list[Rule]:
    """Parse a line of a .gitignore file with pathspec; a comment has no rules.

    A rule matches an entry itself and not its contents: a walk goes folder by folder and skips ignored folders.

    Raises:
        ValueError: the line is not a valid rule.
    """
    try:
        if _AMBIGUOUS_SET.search(line):
            raise ValueError
        patterns = GitIgnoreSpec.from_lines([line]).patterns
        return [
            (each.include, _entry_pattern(each.regex)) for each in patterns if each.include is not None and each.regex
        ]
    except (ValueError, re.error):
        raise ValueError("a line is not a valid rule") from None


def _entry_pattern(expression: re.Pattern[str]) -> re.Pattern[str]:
    text = expression.pattern.replace("(?P<ps_d>/)", "/$")
    # `folder/**` matches the folder's contents and not the folder.
    return re.compile(f"{text}." if text.endswith("/") else text, re.DOTALL)


def match_rules(rules: Sequence[Rule], parts: Sequence[str], *, is_folder: bool) -> bool | None:
    """Return whether the last rule that matches the path ignores (True) or includes (False) it; None if none does."""
    path = "/".join(parts) + "/" * is_folder
    return next((include for include, entry in reversed(rules) if entry.search(path)), None)


_HIDDEN_GLOBS = (
    *(".git", ".hg", ".svn", ".toolweave", "node_modules", ".venv", "venv", "__pycache__", ".ds_store"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox"),
    *(".env*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker"),
    *(".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".htpasswd", "*.tfstate", "*.tfstate.*"),
    *(".dockercfg", ".s3cfg", ".vault-token", ".*_history"),
)
_HIDDEN_BY_DEFAULT = re.compile(r"(?!\.env\.example\Z)(?:" + "|".join(map(fnmatch.translate, _HIDDEN_GLOBS)) + ")")
_BACKUP_NAME = re.compile(r"#?(.+)(?:[~#]|\.(?:bak|backup|old|orig|save|copy))", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Root:
    """A folder that may be read: its name in paths, its path, and its path with symbolic links resolved."""

    name: str
    path: str
    real_path: str


@dataclass(frozen=True, slots=True)
class Entry:
    """An open regular file or folder. `parts` is its real path below `root`."""

    descriptor: int
    root: Root
    parts: tuple[str, ...]
    info: os.stat_result

    @property
    def is_folder(self) -> bool:
        """Return whether the entry is a folder."""
        return stat.S_ISDIR(self.info.st_mode)


class Roots:
    """The folders that the operator allows, without hidden entries. Relative paths are resolved once, on creation.

    Default rules hide files; the rules in `ignore` come after them and may include the files again. `private_folder`,
    Toolweave's own data folder, is hidden under any name.

    Raises:
        ConfigError: `ignore` contains an invalid pattern.
    """

    def __init__(self, folders: Iterable[str], ignore: Iterable[str] = (), *, private_folder: Path) -> None:
        try:
            self._rules = [rule for line in ignore for rule in parse_rule(_normalize_name(line))]
        except ValueError:
            raise ConfigError(
                "TOOLWEAVE_FILE_IGNORE contains an invalid pattern.",
                source="settings",
                fix="Write patterns as in .gitignore, separated by commas, such as *.bak,drafts/.",
            ) from None
        self._private_folder = private_folder.absolute()
        self._roots: list[Root] = []
        for folder in dict.fromkeys(os.path.normpath(Path(folder).expanduser().absolute()) for folder in folders):
            name = self._unique_name(Path(folder).name or "root")
            self._roots.append(Root(name, folder, os.path.realpath(folder)))

    @property
    def names(self) -> tuple[str, ...]:
        """Return the roots' names; paths begin with one of them if there are several roots."""
        return tuple(root.name for root in self._roots)

    def list_all(self) -> tuple[Root, ...]:
        """Return all roots.

        Raises:
            ToolFailed: no root is configured.
        """
        if not self._roots:
            raise ToolFailed(NOT_CONFIGURED, "No folder may be read: TOOLWEAVE_FILE_ROOTS names none.")
        return tuple(self._roots)

    def problems(self) -> tuple[str, ...]:
        """Return a message for each root that cannot be used."""
        found: list[str] = []
        for root in self._roots:
            try:
                os.close(self.open_root(root))
            except ToolFailed as problem:
                found.append(str(problem))
        return tuple(found)

    def locate(self, path: str) -> tuple[Root, list[str]] | None:
        """Return a path's root and its parts below it; None for the virtual folder above several roots.

        Raises:
            ToolFailed: no root is configured, or the path is in none of them.
        """
        roots = self.list_all()
        if path.startswith("/"):
            return self.locate_absolute(path)
        parts = [part for part in path.split("/") if part not in {"", "."}]
        if len(roots) == 1:
            return roots[0], parts
        if not parts:
            return None
        for root in roots:
            if root.name == parts[0]:
                return root, parts[1:]
        raise self.outside_error()

    def locate_absolute(self, path: str) -> tuple[Root, list[str]]:
        """Return an absolute path's root and its parts below it, without resolving links.

        Raises:
            ToolFailed: the path is below none of the roots.
        """
        parts = [part for part in path.split("/") if part not in {"", "."}]
        locations = [
            (root, list(filter(None, base.split("/")))) for root in self._roots for base in (root.path, root.real_path)
        ]
        # The innermost root comes first, so that a root within another root is found under its own name.
        for root, location in sorted(locations, key=lambda found: -len(found[1])):
            if parts[: len(location)] == location:
                return root, parts[len(location) :]
        raise self.outside_error()

    def display_path(self, root: Root, parts: Iterable[str]) -> str:
        """Return a path in the form of tool results and parameters."""
        path = "/".join((root.name, *parts) if len(self._roots) > 1 else tuple(parts)) or "."
        # JSON cannot contain a name that is not UTF-8: replacement characters stand for its invalid bytes.
        return os.fsencode(path).decode("utf-8", "replace")

    def is_hidden(self, parts: Sequence[str], *, is_folder: bool) -> bool:
        """Return whether a rule hides the last of `parts`, the path below its root; its parents were checked before.

        A backup copy such as notes.txt~ that no rule matches is hidden if its original is.
        """
        *parents, name = map(_normalize_name, parts)
        ignored = match_rules(self._rules, (*parents, name), is_folder=is_folder)
        if ignored is None and _HIDDEN_BY_DEFAULT.match(name):
            return True
        if ignored is None and (copy := _BACKUP_NAME.fullmatch(name)):
            return self.is_hidden((*parents, copy[1]), is_folder=is_folder)
        return ignored is True

    def is_data_folder(self, info: os.stat_result) -> bool:
        """Return whether this is the private folder, whatever name led to it."""
        try:
            private = self._private_folder.stat()
        except OSError:
            return False
        return (info.st_dev, info.st_ino) == (private.st_dev, private.st_ino)

    def outside_error(self) -> ToolFailed:
        """Build the error for a path outside the roots; it does not reveal whether the path exists."""
        advice = (
            f"Begin the path with one of: {', '.join(self.names)}."
            if len(self._roots) > 1
            else "Use a path relative to the root, as search_files returns it."
        )
        return ToolFailed(FORBIDDEN_PATH, "The path is not within the folders that may be read.", advice)

    def open_root(self, root: Root) -> int:
        """Open a root and return its file descriptor.

        Raises:
            ToolFailed: it is absent, not a folder, a kernel file system, or Toolweave's data folder.
        """
        try:
            folder = os.open(root.path, _ROOT_FLAGS)
        except OSError as error:
            problem = f"cannot be opened: {error.strerror}"
        else:
            info = os.fstat(folder)
            if _is_kernel_file_system(info.st_dev):
                problem = "is a file system of the kernel"
            elif self.is_data_folder(info):
                problem = "is Toolweave's own data folder"
            else:
                return folder
            os.close(folder)
        raise ToolFailed(
            NOT_CONFIGURED,
            f"TOOLWEAVE_FILE_ROOTS names the folder '{root.name}', which {problem}.",
            "Ask the operator to correct the setting.",
        )

    @contextmanager
    def open_path(self, root: Root, parts: Sequence[str]) -> Iterator[Entry]:
        """Open the entry at `parts` below `root`; the context closes it.

        Raises:
            ToolFailed: it is outside the roots, absent, hidden by a rule, unreadable, or neither file nor folder.
        """
        walk = _PathWalk(self)
        try:
            walk.start_at(root)
            yield walk.walk_to(parts)
        except OSError as error:
            raise _tool_error(error) from None
        finally:
            walk.close()

    def _unique_name(self, name: str) -> str:
        taken, number = self.names, 2
        free = name
        while free in taken:
            free = f"{name}-{number}"
            number += 1
        return free


class _PathWalk:
    """Walk a path from a root. Every folder on the way stays open, so that `..` returns to the folder passed before."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._open_folders: list[Entry] = []
        self._links = 0

    def start_at(self, root: Root) -> None:
        self.close()
        folder = self._roots.open_root(root)
        self._open_folders.append(Entry(folder, root, (), os.fstat(folder)))

    def close(self) -> None:
        while self._open_folders:
            os.close(self._open_folders.pop().descriptor)

    def walk_to(self, parts: Sequence[str]) -> Entry:
        remaining = deque(parts)
        while remaining:
            part = remaining.popleft()
            if part in {"", "."}:
                continue
            if part == "..":
                self._go_up()
            elif (target := self._read_link(part)) is not None:
                remaining.extendleft(reversed(self._target_parts(target)))
            else:
                self._go_down(part)
        return self._open_folders[-1]

    def _go_up(self) -> None:
        if len(self._open_folders) == 1:
            raise self._roots.outside_error()
        os.close(self._open_folders.pop().descriptor)

    def _go_down(self, part: str) -> None:
        folder = self._open_folders[-1]
        if not folder.is_folder or len(self._open_folders) > MAX_DEPTH:
            raise _not_found()
        descriptor, info = open_entry(part, folder.descriptor, folder.info.st_dev)
        self._open_folders.append(entry := Entry(descriptor, folder.root, (*folder.parts, part), info))
        if self._roots.is_hidden(entry.parts, is_folder=entry.is_folder) or self._roots.is_data_folder(info):
            raise _not_found()

    def _read_link(self, part: str) -> str | None:
        """Return the target of a symbolic link; None if `part` is not a link."""
        folder = self._open_folders[-1]
        try:
            target = os.readlink(part, dir_fd=folder.descriptor)
        except OSError:
            return None
        self._links += 1
        parts = (*folder.parts, part)
        is_hidden = any(self._roots.is_hidden(parts, is_folder=is_folder) for is_folder in (False, True))
        if self._links > _MAX_LINKS or is_hidden:
            raise _not_found()
        return target

    def _target_parts(self, target: str) -> list[str]:
        """Return the parts of a link's target; for an absolute target, restart the walk at its root."""
        if not target.startswith("/"):
            return target.split("/")
        root, parts = self._roots.locate_absolute(target)
        self.start_at(root)
        return parts


def open_entry(name: str, folder: int, device: int) -> tuple[int, os.stat_result]:
    """Open a regular file or folder in an open folder on `device`, without following a symbolic link.

    Raises:
        OSError: it cannot be opened, or is a link.
        ToolFailed: it is neither file nor folder, or belongs to a kernel file system.
    """
    # Checked before opening, because opening a device may have an effect on it.
    if _is_file_or_folder(os.stat(name, dir_fd=folder, follow_symlinks=False)):
        descriptor = os.open(name, _OPEN_FLAGS, dir_fd=folder)
        info = os.fstat(descriptor)
        if _is_file_or_folder(info) and (info.st_dev == device or not _is_kernel_file_system(info.st_dev)):
            return descriptor, info
        os.close(descriptor)
    raise ToolFailed(NOT_TEXT, "The path is not a regular file: it is a pipe, a device or the like.")


def _is_file_or_folder(info: os.stat_result) -> bool:
    return stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)


def _not_found() -> ToolFailed:
    """Build the error for an absent or hidden entry; it does not reveal which of the two."""
    advice = "Find the right path with search_files, pattern '*name*'."
    return ToolFailed(NOT_FOUND, "There is no such file or folder.", advice)


def _tool_error(error: OSError) -> ToolFailed:
    if error.errno in _ABSENT_ERRNOS:
        return _not_found()
    if isinstance(error, PermissionError):
        return ToolFailed(ACCESS_DENIED, "The server may not read this file or folder.")
    return ToolFailed(UNAVAILABLE, f"The file or folder cannot be read: {error.strerror}.")


def _is_kernel_file_system(device: int) -> bool:
    """Return whether this device (`st_dev`) is a kernel file system; False if Linux does not report it."""
    number = f" {os.major(device)}:{os.minor(device)} "
    try:
        lines = _MOUNT_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    # "-" follows a variable number of optional fields and precedes the type of the file system.
    mounts = (line.partition(" - ") for line in lines)
    return any(number in mount and kind.split()[0] in _KERNEL_FILE_SYSTEMS for mount, _, kind in mounts if kind)


def _normalize_name(name: str) -> str:
    """Return a name without differences that some file systems ignore: case, Unicode forms, invisible characters."""
    if name.isascii():
        return name.lower()
    letters = unicodedata.normalize("NFKC", name).casefold()
    return "".join(letter for letter in letters if unicodedata.category(letter) != "Cf")
