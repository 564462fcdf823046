"""Go through the files below a folder, in one order, without leaving it (C-05).

Symbolic links are passed by: what they mean within the roots is found under its own name.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass

from toolweave.servers.core.files.budget import Budget
from toolweave.servers.core.files.git_ignore import GitIgnore, with_rules_of
from toolweave.servers.core.files.ignore_rules import IgnoreRules
from toolweave.servers.core.files.opening import MAX_DEPTH, Opened, open_entry
from toolweave.servers.core.files.roots import Root
from toolweave.servers.error_codes import ToolFailed


@dataclass(frozen=True, slots=True)
class Found:
    """A file in the open folder `folder`; `parts` is its path below its root."""

    root: Root
    parts: tuple[str, ...]
    folder: int
    device: int


class FileWalk:
    """The files below folders that a call may see, as far as its budget goes."""

    def __init__(self, rules: IgnoreRules, budget: Budget) -> None:
        self._rules = rules
        self._budget = budget
        self._seen: set[tuple[int, int]] = set()
        self.unreadable_folders = 0

    def below(self, folder: Opened, git: GitIgnore | None) -> Iterator[Found]:
        """Yield the files in `folder` and below, sorted by name; a folder that was seen before is passed by."""
        identity = (folder.info.st_dev, folder.info.st_ino)
        if identity in self._seen:
            return
        self._seen.add(identity)
        git = with_rules_of(folder.descriptor, folder.info.st_dev, len(folder.parts), git)
        for name, is_folder in self._entries(folder):
            if not self._budget.allows():
                return
            parts = (*folder.parts, name)
            if self._rules.hides(parts, is_folder=is_folder) or (git and git.ignores(parts, is_folder=is_folder)):
                continue
            if is_folder:
                yield from self._inside(folder, parts, git)
            else:
                yield Found(folder.root, parts, folder.descriptor, folder.info.st_dev)

    def _entries(self, folder: Opened) -> list[tuple[str, bool]]:
        """List files and folders, sorted; what is neither is left out."""
        entries: list[tuple[str, bool]] = []
        try:
            with os.scandir(folder.descriptor) as listing:
                for entry in listing:
                    if not self._budget.allows(files=1):
                        break
                    if (is_folder := entry.is_dir(follow_symlinks=False)) or entry.is_file(follow_symlinks=False):
                        entries.append((entry.name, is_folder))
        except OSError:
            self.unreadable_folders += 1
        return sorted(entries)

    def _inside(self, folder: Opened, parts: tuple[str, ...], git: GitIgnore | None) -> Iterator[Found]:
        if len(parts) > MAX_DEPTH:
            return
        try:
            descriptor, info = open_entry(parts[-1], folder.descriptor, folder.info.st_dev)
        except (OSError, ToolFailed):
            self.unreadable_folders += 1
            return
        try:
            inner = Opened(descriptor, folder.root, parts, info)
            if inner.is_folder and not self._rules.is_private(info):
                yield from self.below(inner, git)
        finally:
            os.close(descriptor)
