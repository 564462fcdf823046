"""Search files by their names or by the text in them, as far as a budget goes (C-05)."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from toolweave.servers.core.files.budget import Budget
from toolweave.servers.core.files.content_matches import ContentSearch
from toolweave.servers.core.files.git_ignore import GitIgnore, with_rules_of
from toolweave.servers.core.files.globs import Glob
from toolweave.servers.core.files.ignore_rules import IgnoreRules
from toolweave.servers.core.files.opening import Opened, opened
from toolweave.servers.core.files.roots import Root, Roots
from toolweave.servers.core.files.walking import FileWalk, Found
from toolweave.servers.error_codes import INVALID_PARAMETER, ToolFailed


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for: `files` narrows a search in contents to the files that a glob matches."""

    pattern: str
    directory: str
    content: bool
    files: str | None
    ignore_case: bool
    limit: int


@dataclass(slots=True)
class Answer:
    """What was found, sorted by path, and how far the search came."""

    matches: list[dict[str, Any]] = field(default_factory=list)
    files: int = 0
    skipped: int = 0
    unreadable_folders: int = 0
    unusable_roots: list[str] = field(default_factory=list)


class FileSearch:
    """One search; it runs on a thread."""

    def __init__(self, roots: Roots, rules: IgnoreRules, query: Query, budget: Budget, *, max_bytes: int) -> None:
        self._roots = roots
        self._rules = rules
        self._query = query
        self._budget = budget
        self._walk = FileWalk(rules, budget)
        self._content = ContentSearch(query.pattern, budget, ignore_case=query.ignore_case, max_bytes=max_bytes)
        names = query.files if query.content else query.pattern
        self._glob = Glob(names, ignore_case=query.ignore_case) if names else None
        self._answer = Answer()

    def run(self) -> Answer:
        """Search until all is seen or the budget is used up.

        Raises:
            ToolFailed: the directory is outside the roots, absent, no folder, or no root can be used.
        """
        for match in self._matches():
            if len(self._answer.matches) == self._query.limit:
                self._budget.reached = "results"
                break
            self._answer.matches.append(match)
        self._answer.skipped = self._content.skipped
        self._answer.unreadable_folders = self._walk.unreadable_folders
        return self._answer

    def _matches(self) -> Iterator[dict[str, Any]]:
        place = self._roots.locate(self._query.directory)
        if place:
            yield from self._below(*place, above=())
            return
        problems: list[ToolFailed] = []
        for root in self._roots.all():
            try:
                yield from self._below(root, [], above=(root.name,))
            except ToolFailed as problem:
                problems.append(problem)
                self._answer.unusable_roots.append(root.name)
        if len(problems) == len(self._roots.names):
            raise problems[0]

    def _below(self, root: Root, parts: list[str], *, above: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        with opened(self._roots, self._rules, root, parts) as folder:
            if not folder.is_folder:
                raise ToolFailed(INVALID_PARAMETER, "Parameter 'directory' must be a folder; this is a file.")
            for found in self._walk.below(folder, self._git_above(folder)):
                self._answer.files += 1
                if self._glob is None or self._glob.matches((*above, *found.parts[len(folder.parts) :])):
                    yield from self._in(found)

    def _in(self, found: Found) -> Iterator[dict[str, Any]]:
        path = self._roots.shown(found.root, found.parts)
        if self._query.content:
            yield from ({"path": path, "line": line, "text": text} for line, text in self._content.lines(found))
            return
        try:
            info = os.stat(found.parts[-1], dir_fd=found.folder, follow_symlinks=False)
        except OSError:
            return
        yield {"path": path, "size_bytes": info.st_size}

    def _git_above(self, folder: Opened) -> GitIgnore | None:
        """Gather the .gitignore rules of the folders above; none when they ignore the very folder that is asked for."""
        git = None
        for depth in range(len(folder.parts)):
            with opened(self._roots, self._rules, folder.root, folder.parts[:depth]) as above:
                git = with_rules_of(above.descriptor, above.info.st_dev, depth, git)
            if git and git.ignores(folder.parts[: depth + 1], is_folder=True):
                git = None
        return git
