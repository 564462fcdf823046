"""Open a file or folder below a root without ever leaving it, however links and names change meanwhile (C-05).

The kernel never follows a symbolic link for us: each part of the path is opened by itself, relative to the open
folder it is in, and a link's target is walked in the same way. What was checked is what is open. Hard links and
mounts within a root cannot be told from its own files: whoever makes them decides what is shown.
"""

import os
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from toolweave.servers.core.files.ignore_rules import IgnoreRules
from toolweave.servers.core.files.kernel_files import is_kernel_file_system
from toolweave.servers.core.files.refusals import failed, missing, outside, special_file
from toolweave.servers.core.files.roots import Root, Roots

MAX_DEPTH = 64
_MAX_LINKS = 40
# Not blocked by a pipe nobody writes to; never the terminal of this process.
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


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


@contextmanager
def opened(roots: Roots, rules: IgnoreRules, root: Root, parts: Sequence[str]) -> Iterator[Opened]:
    """Open what `parts` name below `root`; it is closed with the context.

    Raises:
        ToolFailed: it is outside the roots, absent, hidden by a rule, not to be read, or neither file nor folder.
    """
    with _Walk.below(root, roots, rules) as walk:
        try:
            yield walk.to(parts)
        except OSError as error:
            raise failed(error) from None


def open_entry(name: str, folder: int, device: int) -> tuple[int, os.stat_result]:
    """Open a regular file or folder within an open folder that is on `device`; a symbolic link is not followed.

    Raises:
        OSError: it cannot be opened, or is a link.
        ToolFailed: it is neither file nor folder, or made up by the kernel.
    """
    # Looked at first because opening a device may do something to it.
    if not _is_file_or_folder(os.stat(name, dir_fd=folder, follow_symlinks=False)):
        raise special_file()
    descriptor = os.open(name, _OPEN, dir_fd=folder)
    info = os.fstat(descriptor)
    if _is_file_or_folder(info) and (info.st_dev == device or not is_kernel_file_system(info.st_dev)):
        return descriptor, info
    os.close(descriptor)
    raise special_file()


def _is_file_or_folder(info: os.stat_result) -> bool:
    return stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)


class _Walk:
    """The way from a root down to where we are: each folder on it is open, so that `..` is the one we came from."""

    def __init__(self, roots: Roots, rules: IgnoreRules) -> None:
        self._roots = roots
        self._rules = rules
        self._way: list[Opened] = []
        self._links = 0

    @classmethod
    @contextmanager
    def below(cls, root: Root, roots: Roots, rules: IgnoreRules) -> Iterator["_Walk"]:
        walk = cls(roots, rules)
        try:
            walk._start(root)
            yield walk
        finally:
            walk._leave()

    def to(self, parts: Sequence[str]) -> Opened:
        ahead = deque(parts)
        while ahead:
            part = ahead.popleft()
            if part in {"", "."}:
                continue
            if part == "..":
                self._up()
            elif (target := self._link(part)) is not None:
                ahead.extendleft(reversed(self._below_here(target)))
            else:
                self._down(part)
        return self._way[-1]

    def _start(self, root: Root) -> None:
        self._leave()
        folder = root.open()
        self._way.append(Opened(folder, root, (), os.fstat(folder)))

    def _leave(self) -> None:
        while self._way:
            os.close(self._way.pop().descriptor)

    def _up(self) -> None:
        if len(self._way) == 1:
            raise outside(self._roots.names)
        os.close(self._way.pop().descriptor)

    def _down(self, part: str) -> None:
        here = self._way[-1]
        if not here.is_folder or len(self._way) > MAX_DEPTH:
            raise missing()
        descriptor, info = open_entry(part, here.descriptor, here.info.st_dev)
        self._way.append(there := Opened(descriptor, here.root, (*here.parts, part), info))
        if self._rules.hides(there.parts, is_folder=there.is_folder) or self._rules.is_private(info):
            raise missing()

    def _link(self, part: str) -> str | None:
        """Return what a symbolic link says, None where `part` is none."""
        here = self._way[-1]
        try:
            target = os.readlink(part, dir_fd=here.descriptor)
        except OSError:
            return None
        self._links += 1
        parts = (*here.parts, part)
        if (
            self._links > _MAX_LINKS
            or self._rules.hides(parts, is_folder=False)
            or self._rules.hides(parts, is_folder=True)
        ):
            raise missing()
        return target

    def _below_here(self, target: str) -> list[str]:
        """Return the parts of a link's target; an absolute one starts anew at its root."""
        if not target.startswith("/"):
            return target.split("/")
        root, parts = self._roots.locate_absolute(target)
        self._start(root)
        return parts
