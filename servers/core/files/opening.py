"""Open a file or folder below a root without ever leaving it, however links and names change meanwhile (C-05).

The kernel never follows a symbolic link for us: each part of the path is opened by itself, relative to the open
folder it is in, and a link's target is walked in the same way. What was checked is what is open. Hard links and
mounts within a root look like its own files: their maker decides what is shown. Ignore rules hide secrets
and the insides of tools. Messages never hold a path: what lies outside the roots stays unknown.
"""

import errno
import os
import re
import stat
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
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
# Not blocked by a pipe nobody writes to; never the terminal of this process.
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_OPEN_ROOT = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_ROOT_PROBLEMS = {FileNotFoundError: "does not exist", NotADirectoryError: "is not a folder"}
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL}
_DENIED = {errno.EACCES, errno.EPERM}
_MOUNTS = Path("/proc/self/mountinfo")
_KERNEL_FILE_SYSTEMS = frozenset(
    (
        *("autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs"),
        *("fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs"),
        "tracefs",
    )
)

_ANYWHERE = "^(?:.+/)?"
_FOLDER_MARK = "(?P<ps_d>"
# Choices of characters that Python announces to read otherwise one day.
_UNCLEAR = re.compile(r"\[[!^]?\[|\[.*(?:--|&&|~~|\|\|)")
_Group = tuple[bool, re.Pattern[str] | None, re.Pattern[str] | None]


class RuleSet:
    """Rules as in a .gitignore; of those that match, the last one counts.

    pathspec reads them; they are combined to be quick. A walk matches folder by folder: what is in an ignored folder is
    never matched.

    Raises:
        ValueError: a line is no rule, unless such lines are to be passed by, as git does.
    """

    def __init__(self, lines: Iterable[str], *, ignore_case: bool = False, pass_by_others: bool = False) -> None:
        flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
        rules = [rule for line in lines for rule in _rules(line, pass_by=pass_by_others)]
        # One expression for all neighbours of one effect, matched from the last on.
        self._groups: list[_Group] = [
            (include, *_combined([rule for _, rule in group], flags))
            for include, group in groupby(reversed(rules), key=lambda rule: rule[0])
        ]

    def decision(self, parts: Sequence[str], *, is_folder: bool) -> bool | None:
        """Say whether the rules ignore (True) or include (False) the last of `parts`; None where none matches."""
        name = f"{parts[-1]}/" if is_folder else parts[-1]
        path = None
        for include, for_names, for_paths in self._groups:
            if for_names and for_names.match(name):
                return include
            if for_paths:
                path = path or "/".join((*parts[:-1], name))
                if for_paths.search(path):
                    return include
        return None


def _rules(line: str, *, pass_by: bool) -> list[tuple[bool, str]]:
    """Read one line: whether it ignores, and what; nothing of a comment."""
    try:
        if _UNCLEAR.search(line):
            raise ValueError
        patterns = GitIgnoreSpec.from_lines([line]).patterns
    except (ValueError, re.error):
        if pass_by:
            return []
        raise ValueError("a line is no rule") from None
    return [
        (pattern.include, _rule(str(pattern.regex.pattern)))
        for pattern in patterns
        if pattern.include is not None and pattern.regex is not None
    ]


def _rule(expression: str) -> str:
    """Make a rule of pathspec, which matches files by the folders above them, match the entry alone."""
    text = expression.replace(_FOLDER_MARK, "(?:")
    for tail, own in (("(?:(?:/)|$)", "/?$"), ("(?:/)", "/$")):
        if text.endswith(tail):
            return text.removesuffix(tail) + own
    # `folder/**` means what is in the folder, not the folder.
    return f"{text}." if text.endswith("/") else text


def _combined(expressions: list[str], flags: int) -> tuple[re.Pattern[str] | None, re.Pattern[str] | None]:
    """Combine the rules that need a name only, without what makes them fit a path, and those that need the path."""
    by_name: list[str] = []
    by_path: list[str] = []
    for expression in expressions:
        body = expression.removeprefix(_ANYWHERE)
        if body != expression and "/" not in body.removesuffix("/?$").removesuffix("/$").replace("[^/]", ""):
            by_name.append(body)
        else:
            by_path.append(expression)
    return _any_of(by_name, flags), _any_of(by_path, flags)


def _any_of(expressions: list[str], flags: int) -> re.Pattern[str] | None:
    return re.compile("|".join(expressions), flags) if expressions else None


DEFAULT_RULES = (
    *(".git", ".hg", ".svn", ".toolweave", "node_modules", ".venv", "venv", "__pycache__", ".DS_Store"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox"),
    *(".env*", "*.env", "!.env.example", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker"),
    *(".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".htpasswd", "*.tfstate", "*.tfstate.*"),
    *(".dockercfg", ".s3cfg", ".vault-token", ".*_history"),
)
_ENDS_OF_COPIES = ("~", "#", ".bak", ".backup", ".old", ".orig", ".save", ".copy")


@dataclass(frozen=True, slots=True)
class Root:
    """A folder that may be read: its name in paths, where it is, and that with its symbolic links resolved."""

    name: str
    path: str
    real_path: str


@dataclass(frozen=True, slots=True)
class Opened:
    """An open regular file or folder: where it really is, below which root, and what it is."""

    descriptor: int
    root: Root
    parts: tuple[str, ...]
    info: os.stat_result

    @property
    def is_folder(self) -> bool:
        """Tell a folder from a file."""
        return stat.S_ISDIR(self.info.st_mode)


class Roots:
    """The operator's folders without what is hidden in them. Relative ones are taken from the working directory, once.

    The usual rules hide files, then those of `ignore`, which may undo them. `private_folder`, in which Toolweave keeps
    its own data, is hidden whatever it is called.

    Raises:
        ConfigError: `ignore` holds what is no pattern.
    """

    def __init__(self, folders: Iterable[str], ignore: Iterable[str] = (), *, private_folder: Path) -> None:
        try:
            self._rules = RuleSet([*DEFAULT_RULES, *ignore], ignore_case=True)
        except ValueError:
            raise ConfigError(
                "TOOLWEAVE_FILE_IGNORE holds what is no pattern.",
                source="settings",
                fix="Write patterns as in .gitignore, separated by commas, such as *.bak,drafts/.",
            ) from None
        self._private_folder = private_folder.absolute()
        self._roots: list[Root] = []
        for folder in dict.fromkeys(os.path.normpath(Path(folder).expanduser().absolute()) for folder in folders):
            name = self._free_name(Path(folder).name or "root")
            self._roots.append(Root(name, folder, os.path.realpath(folder)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names with which paths begin where there are several roots."""
        return tuple(root.name for root in self._roots)

    def all(self) -> tuple[Root, ...]:
        """List the roots.

        Raises:
            ToolFailed: there is none.
        """
        if not self._roots:
            raise ToolFailed(NOT_CONFIGURED, "No folder may be read: TOOLWEAVE_FILE_ROOTS names none.")
        return tuple(self._roots)

    def problems(self) -> tuple[str, ...]:
        """Say of every root that cannot be used why."""
        found: list[str] = []
        for root in self._roots:
            try:
                os.close(self.open_root(root))
            except ToolFailed as problem:
                found.append(str(problem))
        return tuple(found)

    def locate(self, path: str) -> tuple[Root, list[str]] | None:
        """Find the root that a path means and what of the path is left; None means the folder above several roots.

        Raises:
            ToolFailed: there is no root, or the path is in none.
        """
        roots = self.all()
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
        raise self.outside()

    def locate_absolute(self, path: str) -> tuple[Root, list[str]]:
        """Find the root below which an absolute path is, as it is written.

        Raises:
            ToolFailed: it is below none.
        """
        parts = [part for part in path.split("/") if part not in {"", "."}]
        places = [
            (root, list(filter(None, at.split("/")))) for root in self._roots for at in (root.path, root.real_path)
        ]
        # The innermost root first, so that a root within another answers under its own name.
        for root, place in sorted(places, key=lambda found: -len(found[1])):
            if parts[: len(place)] == place:
                return root, parts[len(place) :]
        raise self.outside()

    def shown(self, root: Root, parts: Iterable[str]) -> str:
        """Write a path as answers show it and calls may use it."""
        path = "/".join((root.name, *parts) if len(self._roots) > 1 else tuple(parts)) or "."
        # A name that is no UTF-8 cannot be written in JSON; it is shown with marks in place of its strange bytes.
        return os.fsencode(path).decode("utf-8", "replace")

    def hides(self, parts: Sequence[str], *, is_folder: bool) -> bool:
        """Say whether a rule hides the last of `parts`, the path from its root; what is above it was matched before.

        Capital letters count as small ones: some file systems know no difference. Of a copy, such as notes.txt~, that
        no rule names itself, the rules for what it was copied from hold.
        """
        decision = self._rules.decision(parts, is_folder=is_folder)
        if decision is None and (other := _other_name(parts[-1])):
            return self.hides((*parts[:-1], other), is_folder=is_folder)
        return decision is True

    def is_private(self, info: os.stat_result) -> bool:
        """Say whether this is the private folder, by whichever name it was found."""
        try:
            private = self._private_folder.stat()
        except OSError:
            return False
        return (info.st_dev, info.st_ino) == (private.st_dev, private.st_ino)

    def outside(self) -> ToolFailed:
        """Refuse a path that leads out of the roots, whether anything is there or not."""
        advice = (
            f"Begin the path with one of: {', '.join(self.names)}."
            if len(self._roots) > 1
            else "Use a path relative to the root, as search_files answers it."
        )
        return ToolFailed(FORBIDDEN_PATH, "The path is not within the folders that may be read.", advice)

    def open_root(self, root: Root) -> int:
        """Open a root.

        Raises:
            ToolFailed: it is not there, no folder, made up by the kernel, or our own.
        """
        try:
            folder = os.open(root.path, _OPEN_ROOT)
        except OSError as error:
            problem = _ROOT_PROBLEMS.get(type(error), f"cannot be opened: {error.strerror}")
        else:
            info = os.fstat(folder)
            if _is_kernel_file_system(info.st_dev):
                problem = "holds no files but a view into the kernel"
            elif self.is_private(info):
                problem = "is the one in which Toolweave keeps its own data"
            else:
                return folder
            os.close(folder)
        raise ToolFailed(
            NOT_CONFIGURED,
            f"TOOLWEAVE_FILE_ROOTS names the folder '{root.name}', which {problem}.",
            "Ask the operator to correct the setting.",
        )

    @contextmanager
    def opened(self, root: Root, parts: Sequence[str]) -> Iterator[Opened]:
        """Open what `parts` name below `root`; it is closed with the context.

        Raises:
            ToolFailed: it is outside the roots, absent, hidden by a rule, not to be read, or neither file nor folder.
        """
        walk = _Walk(self)
        try:
            walk.start(root)
            yield walk.to(parts)
        except OSError as error:
            raise _failed(error) from None
        finally:
            walk.leave()

    def _free_name(self, name: str) -> str:
        taken, number = self.names, 2
        free = name
        while free in taken:
            free = f"{name}-{number}"
            number += 1
        return free


class _Walk:
    """The way from a root down to where we are: each folder on it is open, so that `..` is the one we came from."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._way: list[Opened] = []
        self._links = 0

    def start(self, root: Root) -> None:
        self.leave()
        folder = self._roots.open_root(root)
        self._way.append(Opened(folder, root, (), os.fstat(folder)))

    def leave(self) -> None:
        while self._way:
            os.close(self._way.pop().descriptor)

    def to(self, parts: Sequence[str]) -> Opened:
        ahead = deque(parts)
        while ahead:
            part = ahead.popleft()
            if part in {"", "."}:
                continue
            if part == "..":
                self._up()
            elif (target := self._link(part)) is not None:
                ahead.extendleft(reversed(self._parts_of(target)))
            else:
                self._down(part)
        return self._way[-1]

    def _up(self) -> None:
        if len(self._way) == 1:
            raise self._roots.outside()
        os.close(self._way.pop().descriptor)

    def _down(self, part: str) -> None:
        here = self._way[-1]
        if not here.is_folder or len(self._way) > MAX_DEPTH:
            raise _missing()
        descriptor, info = open_entry(part, here.descriptor, here.info.st_dev)
        self._way.append(there := Opened(descriptor, here.root, (*here.parts, part), info))
        if self._roots.hides(there.parts, is_folder=there.is_folder) or self._roots.is_private(info):
            raise _missing()

    def _link(self, part: str) -> str | None:
        """Return what a symbolic link says, None where `part` is none."""
        here = self._way[-1]
        try:
            target = os.readlink(part, dir_fd=here.descriptor)
        except OSError:
            return None
        self._links += 1
        parts = (*here.parts, part)
        is_hidden = any(self._roots.hides(parts, is_folder=is_folder) for is_folder in (False, True))
        if self._links > _MAX_LINKS or is_hidden:
            raise _missing()
        return target

    def _parts_of(self, target: str) -> list[str]:
        """Return the parts of a link's target; an absolute one starts anew at its root."""
        if not target.startswith("/"):
            return target.split("/")
        root, parts = self._roots.locate_absolute(target)
        self.start(root)
        return parts


def open_entry(name: str, folder: int, device: int) -> tuple[int, os.stat_result]:
    """Open a regular file or folder within an open folder that is on `device`; a symbolic link is not followed.

    Raises:
        OSError: it cannot be opened, or is a link.
        ToolFailed: it is neither file nor folder, or made up by the kernel.
    """
    # Looked at first because opening a device may do something to it.
    if _is_file_or_folder(os.stat(name, dir_fd=folder, follow_symlinks=False)):
        descriptor = os.open(name, _OPEN, dir_fd=folder)
        info = os.fstat(descriptor)
        if _is_file_or_folder(info) and (info.st_dev == device or not _is_kernel_file_system(info.st_dev)):
            return descriptor, info
        os.close(descriptor)
    raise ToolFailed(NOT_TEXT, "The path is not a regular file, such as a pipe or a device.")


def _is_file_or_folder(info: os.stat_result) -> bool:
    return stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)


def _missing() -> ToolFailed:
    """Refuse what does not exist, or is hidden by an ignore rule: both sound alike."""
    advice = "Find the right path with search_files, pattern '*name*'."
    return ToolFailed(NOT_FOUND, "There is no such file or folder.", advice)


def _failed(error: OSError) -> ToolFailed:
    if error.errno in _ABSENT:
        return _missing()
    if error.errno in _DENIED:
        return ToolFailed(ACCESS_DENIED, "The server may not read this file or folder.")
    return ToolFailed(UNAVAILABLE, f"The file or folder cannot be read: {error.strerror}.")


def _is_kernel_file_system(device: int) -> bool:
    """Say whether files on this device (`st_dev`) are made up by the kernel; no where Linux does not say."""
    number = f" {os.major(device)}:{os.minor(device)} "
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    # After a variable number of optional fields comes "-", then the kind of file system.
    mounts = (line.partition(" - ") for line in lines)
    return any(number in mount and kind.split()[0] in _KERNEL_FILE_SYSTEMS for mount, _, kind in mounts if kind)


def _other_name(name: str) -> str | None:
    """Return a name that a file has as good as this one: that of what it is a copy of, or one without odd letters."""
    if not name.isascii():
        # Some file systems know no difference here either.
        plain = "".join(
            letter for letter in unicodedata.normalize("NFKC", name) if unicodedata.category(letter) != "Cf"
        )
        if plain not in ("", name):
            return plain
    end = next((end for end in _ENDS_OF_COPIES if name.lower().endswith(end)), "")
    original = name[: len(name) - len(end)]
    if end == "#":
        original = original.removeprefix("#")
    return original if end and original else None
