"""Provide the tools read_file and search_files: their parameters and results (C-02, C-05, C-07)."""

import asyncio
from collections.abc import Callable
from typing import Annotated, TypeVar

from fastmcp.tools import ToolResult
from pydantic import AfterValidator, Field

from toolweave.config.settings import Settings
from toolweave.servers.core.files.reading import CallBudget, read_lines
from toolweave.servers.core.files.roots import Roots
from toolweave.servers.core.files.searching import FileSearch
from toolweave.servers.envelope import success
from toolweave.servers.error_codes import INVALID_PARAMETER, ToolFailed
from toolweave.servers.tool_server import WHOLE_NUMBER, Absent

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
