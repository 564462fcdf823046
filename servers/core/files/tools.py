"""Provide the tools read_file and search_files: their parameters, results and search (C-02, C-05, C-07).

Folders are walked in sorted order, within the budget of one call. The walk skips symbolic links, whose targets within
the roots it finds under their own names, and entries that .gitignore files exclude. No pattern and no rule can make a
search slow.
"""

import asyncio
import fnmatch
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from fastmcp.tools import ToolResult
from pydantic import AfterValidator, Field

from toolweave.config.settings import Settings
from toolweave.servers.core.files.reading import CallBudget, not_text_error, open_text, read_lines
from toolweave.servers.core.files.roots import MAX_DEPTH, Entry, Root, Roots, Rule, match_rules, open_entry, parse_rule
from toolweave.servers.error_codes import INVALID_PARAMETER, ToolFailed
from toolweave.servers.tool_server import WHOLE_NUMBER, Absent, success

_EXCERPT_CHARS = 200
_CHARS_BEFORE_MATCH = 60
_GITIGNORE = ".gitignore"
_MAX_GITIGNORE_BYTES = 64 * 1024
_MAX_GITIGNORE_LINES = 1000
_MAX_STARS = 2


class Glob:
    """A glob: `*`, `?` and `[…]` match within a name, `**` any folders; without a slash only names are compared."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        flags = re.IGNORECASE if ignore_case else 0
        parts = [part for part in pattern.split("/") if part not in {"", "."}]
        self._name_only = len(parts) == 1 and not pattern.endswith("/")
        if pattern.endswith("/"):
            parts.append("**")
        # fnmatch's expressions do not backtrack over a star that has matched.
        self._parts = [None if part == "**" else re.compile(fnmatch.translate(part), flags) for part in parts]

    def matches(self, path: Sequence[str]) -> bool:
        """Return whether the glob matches a path, given as its parts."""
        names = path[-1:] if self._name_only else path
        name = part = resume_at = 0
        after_stars: int | None = None
        while name < len(names):
            expected = self._parts[part] if part < len(self._parts) else _NO_MATCH
            if expected is None:
                part += 1
                after_stars, resume_at = part, name
            elif expected.match(names[name]):
                part, name = part + 1, name + 1
            elif after_stars is not None:
                # Retry the part after the last ** one folder further down; the part before it stays matched.
                resume_at += 1
                part, name = after_stars, resume_at
            else:
                return False
        return all(expected is None for expected in self._parts[part:])


_NO_MATCH = re.compile(r"(?!)")


# The rules of the .gitignore files above an entry, with the depth of their folders; the nearest file comes first.
GitRules = tuple[tuple[int, list[Rule]], ...]


def _is_ignored(files: GitRules, parts: Sequence[str], *, is_folder: bool) -> bool:
    """Return whether .gitignore rules exclude the last of `parts`, the path below its root."""
    decisions = (match_rules(rules, parts[depth:], is_folder=is_folder) for depth, rules in files)
    return next((found for found in decisions if found is not None), False)


def _add_folder_rules(folder: Entry, parent_rules: GitRules) -> GitRules:
    """Return the rules with those of a folder added, if it has a readable .gitignore file."""
    with suppress(OSError, ToolFailed):
        descriptor, _ = open_entry(_GITIGNORE, folder.descriptor, folder.info.st_dev)
        with os.fdopen(descriptor, "rb") as file:
            text = file.read(_MAX_GITIGNORE_BYTES).decode("utf-8-sig", "replace")
        rules: list[Rule] = []
        for line in filter(_is_cheap_rule, text.split("\n")[:_MAX_GITIGNORE_LINES]):
            with suppress(ValueError):  # git skips invalid lines, too
                rules += parse_rule(line.removesuffix("\r"))
        return ((len(folder.parts), rules), *parent_rules)
    return parent_rules


def _is_cheap_rule(line: str) -> bool:
    """Return False for rules that backtrack, so that a .gitignore file cannot block searches."""
    names = line.split("/")
    return names.count("**") <= _MAX_STARS and all(name.count("*") <= _MAX_STARS for name in names)


@dataclass(kw_only=True)
class FileSearch:
    """One search, to run on a thread; its fields count what it has searched and skipped.

    A content search finds literal text, never a regular expression, so that no text can make it slow. `files` is a glob
    that restricts a content search.
    """

    roots: Roots
    budget: CallBudget
    max_bytes: int
    pattern: str
    directory: str = "."
    content: bool = False
    files: str | None = None
    ignore_case: bool = False
    limit: int = 1000
    searched: int = field(default=0, init=False)
    skipped: int = field(default=0, init=False)
    unreadable_folders: int = field(default=0, init=False)
    unusable_roots: list[str] = field(default_factory=list, init=False)
    _visited: set[tuple[int, int]] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self._text = self.pattern.lower() if self.ignore_case else self.pattern
        names = self.files if self.content else self.pattern
        self._glob = Glob(names, ignore_case=self.ignore_case) if names else None

    def run(self) -> list[dict[str, Any]]:
        """Return the matches, sorted by path, until everything is searched or the budget is exhausted.

        Raises:
            ToolFailed: the directory is outside the roots, absent or not a folder, or no root can be used.
        """
        matches: list[dict[str, Any]] = []
        for match in self._matches():
            if len(matches) == self.limit:
                self.budget.stop_reason = "results"
                break
            matches.append(match)
        return matches

    def _matches(self) -> Iterator[dict[str, Any]]:
        location = self.roots.locate(self.directory)
        if location:
            yield from self._matches_below(*location, prefix=())
            return
        problems: list[ToolFailed] = []
        for root in self.roots.list_all():
            try:
                yield from self._matches_below(root, [], prefix=(root.name,))
            except ToolFailed as problem:
                problems.append(problem)
                self.unusable_roots.append(root.name)
        if len(problems) == len(self.roots.names):
            raise problems[0]

    def _matches_below(self, root: Root, parts: list[str], *, prefix: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        with self.roots.open_path(root, parts) as top:
            if not top.is_folder:
                raise ToolFailed(INVALID_PARAMETER, "Parameter 'directory' must be a folder; this is a file.")
            for folder, name in self._walk(top, self._parent_rules(top)):
                self.searched += 1
                path = (*folder.parts, name)
                if self._glob is None or self._glob.matches((*prefix, *path[len(top.parts) :])):
                    yield from self._matches_in(folder, name, self.roots.display_path(root, path))

    def _matches_in(self, folder: Entry, name: str, path: str) -> Iterator[dict[str, Any]]:
        if not self.content:
            with suppress(OSError):
                info = os.stat(name, dir_fd=folder.descriptor, follow_symlinks=False)
                yield {"path": path, "size_bytes": info.st_size}
            return
        for number, line in enumerate(self._lines(folder, name), start=1):
            position = (line.lower() if self.ignore_case else line).find(self._text)
            if position >= 0:
                yield {"path": path, "line": number, "text": _excerpt(line, position)}

    def _lines(self, folder: Entry, name: str) -> list[str]:
        """Return the lines of a file; none if it cannot be searched or does not contain the text."""
        try:
            descriptor, info = open_entry(name, folder.descriptor, folder.info.st_dev)
            with os.fdopen(descriptor, "rb") as file:
                if info.st_size > self.max_bytes:
                    self.skipped += 1
                    return []
                if not self.budget.consume(content_bytes=info.st_size):
                    return []
                content = open_text(io.BytesIO(file.read(info.st_size))).read()
            if "\0" in content:
                raise not_text_error()
        except (OSError, ToolFailed, UnicodeDecodeError):
            self.skipped += 1
            return []
        # Few files contain the text, so only those are split into lines.
        return content.split("\n") if self._text in (content.lower() if self.ignore_case else content) else []

    def _parent_rules(self, folder: Entry) -> GitRules:
        """Return the .gitignore rules of the parent folders; none if they ignore the searched folder itself."""
        git: GitRules = ()
        for depth in range(len(folder.parts)):
            with self.roots.open_path(folder.root, folder.parts[:depth]) as parent:
                git = _add_folder_rules(parent, git)
            if _is_ignored(git, folder.parts[: depth + 1], is_folder=True):
                git = ()
        return git

    def _walk(self, folder: Entry, git: GitRules) -> Iterator[tuple[Entry, str]]:
        """Yield the files in `folder` and below, sorted by name; skip a folder that was visited before."""
        identity = (folder.info.st_dev, folder.info.st_ino)
        if identity in self._visited:
            return
        self._visited.add(identity)
        git = _add_folder_rules(folder, git)
        for name, is_folder in self._entries(folder):
            if not self.budget.consume():
                return
            parts = (*folder.parts, name)
            if self.roots.is_hidden(parts, is_folder=is_folder) or _is_ignored(git, parts, is_folder=is_folder):
                continue
            if is_folder:
                yield from self._walk_subfolder(folder, parts, git)
            else:
                yield folder, name

    def _entries(self, folder: Entry) -> list[tuple[str, bool]]:
        """Return the files and folders of a folder, sorted, with whether each is a folder."""
        entries: list[tuple[str, bool]] = []
        try:
            with os.scandir(folder.descriptor) as listing:
                for entry in listing:
                    if not self.budget.consume(files=1):
                        break
                    if (is_folder := entry.is_dir(follow_symlinks=False)) or entry.is_file(follow_symlinks=False):
                        entries.append((entry.name, is_folder))
        except OSError:
            self.unreadable_folders += 1
        return sorted(entries)

    def _walk_subfolder(self, parent: Entry, parts: tuple[str, ...], git: GitRules) -> Iterator[tuple[Entry, str]]:
        if len(parts) > MAX_DEPTH:
            return
        try:
            descriptor, info = open_entry(parts[-1], parent.descriptor, parent.info.st_dev)
        except (OSError, ToolFailed):
            self.unreadable_folders += 1
            return
        try:
            folder = Entry(descriptor, parent.root, parts, info)
            if folder.is_folder and not self.roots.is_data_folder(info):
                yield from self._walk(folder, git)
        finally:
            os.close(descriptor)


def _excerpt(line: str, position: int) -> str:
    line = line.rstrip("\r")
    start = max(0, position - _CHARS_BEFORE_MATCH) if len(line) > _EXCERPT_CHARS else 0
    end = start + _EXCERPT_CHARS
    return ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")


_TIMEOUT_S = 3.0
_MAX_FILES = 200_000
_MAX_CONTENT_BYTES = 256_000_000
_MAX_SEARCHES = 2
Result = TypeVar("Result")


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("must be a path without NUL characters")
    return text


def _single_line(text: str) -> str:
    if any(character in text for character in "\0\n\r"):
        raise ValueError("must be a single line of text: files are searched line by line")
    return text


Path = Annotated[
    str,
    Field(min_length=1, max_length=4096),
    AfterValidator(_without_nul),
    Field(
        description="The file, relative to the folder that may be read, with / between names, as search_files returns "
        "it. If several folders may be read, it begins with the folder's name.",
        examples=["README.md", "docs/setup.md"],
    ),
]
StartLine = Annotated[
    int,
    Field(strict=True, ge=1, le=2**53 - 1),
    WHOLE_NUMBER,
    Field(description="The first line to read, counted from 1.", examples=[1, 201]),
]
MaxLines = Annotated[
    int,
    Field(strict=True, ge=1, le=1_000_000),
    WHOLE_NUMBER,
    Field(description="How many lines to read at most; all following lines if left out.", examples=[200]),
]
Pattern = Annotated[
    str,
    Field(min_length=1, max_length=500),
    AfterValidator(_single_line),
    Field(
        description="Which files to find: a glob for their names (*.py, *report*) or, with a slash, for their paths "
        "below the directory (docs/**/*.md). With content=true: the text to find in files, taken literally.",
        examples=["*.py", "docs/**/*.md", "def main("],
    ),
]
Directory = Annotated[
    str,
    Field(min_length=1, max_length=4096),
    AfterValidator(_without_nul),
    Field(description="The folder to search, with all its subfolders; '.' is everything.", examples=[".", "docs"]),
]
Content = Annotated[
    bool,
    Field(
        strict=True, description="Search for the pattern in the files' text instead of their names.", examples=[True]
    ),
]
Files = Annotated[
    str,
    Field(min_length=1, max_length=500),
    AfterValidator(_single_line),
    Field(description="With content=true: search only files that this glob matches.", examples=["*.py", "src/**/*.ts"]),
]
IgnoreCase = Annotated[bool, Field(strict=True, description="Ignore upper and lower case.", examples=[True])]
Limit = Annotated[
    int,
    Field(strict=True, ge=1, le=1000),
    WHOLE_NUMBER,
    Field(description="How many matches to return at most.", examples=[100]),
]


class FileTools:
    """The tools as methods. Models read their docstrings and annotations.

    Raises:
        ConfigError: TOOLWEAVE_FILE_IGNORE contains an invalid pattern.
    """

    def __init__(self, settings: Settings) -> None:
        self._roots = Roots(settings.file_roots, settings.file_ignore, private_folder=settings.data_dir)
        self._max_bytes = settings.file_max_bytes
        # Searches need the CPU: more of them at once would delay everything else.
        self._searches = asyncio.Semaphore(_MAX_SEARCHES)

    async def read_file(self, path: Path, start_line: StartLine = 1, max_lines: MaxLines | Absent = None) -> ToolResult:
        """Read a text file, such as source code, a document or a log.

        Use it when you know the path; find paths with search_files. Read a long file in parts: set start_line and
        max_lines, and continue with next_line from the result's metadata. Files that are not text are refused.
        """
        budget = _new_budget()

        def read() -> ToolResult:
            location = self._roots.locate(path)
            if location is None:
                raise _is_folder_error()
            with self._roots.open_path(*location) as file:
                if file.is_folder:
                    raise _is_folder_error()
                text, metadata = read_lines(
                    file, budget, first_line=start_line, max_lines=max_lines, max_bytes=self._max_bytes
                )
                return success({"path": self._roots.display_path(file.root, file.parts), "content": text}, **metadata)

        return await run_in_thread(read, budget)

    async def search_files(
        self,
        pattern: Pattern,
        directory: Directory = ".",
        content: Content = False,
        files: Files | Absent = None,
        ignore_case: IgnoreCase = False,
        limit: Limit = 100,
    ) -> ToolResult:
        """Find files by name, or lines in files by the text in them.

        Use it to list files ("*", "*.md"), to find a file by a part of its name ("*invoice*"), or with content=true to
        find where something is written or defined in documents or source code. read_file accepts the paths that it
        returns. Hidden secrets, and files that .gitignore files exclude, are not searched.
        """
        if files is not None and not content:
            raise ToolFailed(INVALID_PARAMETER, "Parameter 'files' must be left out unless content is true.")
        budget = _new_budget()
        search = FileSearch(
            roots=self._roots,
            budget=budget,
            max_bytes=self._max_bytes,
            pattern=pattern,
            directory=directory,
            content=content,
            files=files,
            ignore_case=ignore_case,
            limit=limit,
        )
        async with self._searches:
            matches = await run_in_thread(search.run, budget)
        return success(
            matches,
            count=len(matches),
            truncated=budget.stop_reason is not None,
            stopped_by=budget.stop_reason,
            files_searched=search.searched,
            files_skipped=search.skipped,
            folders_unreadable=search.unreadable_folders,
            unusable_roots=search.unusable_roots,
        )


def _new_budget() -> CallBudget:
    return CallBudget(seconds=_TIMEOUT_S, files=_MAX_FILES, content_bytes=_MAX_CONTENT_BYTES)


def _is_folder_error() -> ToolFailed:
    return ToolFailed(
        INVALID_PARAMETER,
        "Parameter 'path' must be a file; this is a folder.",
        "List its files with search_files, with the folder as its directory.",
    )


async def run_in_thread(work: Callable[[], Result], budget: CallBudget) -> Result:
    """Run `work` on a thread. On cancellation, cancel its `budget` and wait for the thread before raising."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        budget.cancel()
        await asyncio.wait({running})
        # Retrieved, because nobody else reads its exception.
        _ = running.cancelled() or running.exception()
        raise
