"""The tools read_file and search_files (C-05)."""

import asyncio

from fastmcp import FastMCP
from fastmcp.tools import ToolResult
from pydantic.json_schema import SkipJsonSchema

from toolweave.config.settings import Settings
from toolweave.servers.core.files.budget import Budget
from toolweave.servers.core.files.ignore_rules import IgnoreRules
from toolweave.servers.core.files.off_loop import on_a_thread
from toolweave.servers.core.files.opening import opened
from toolweave.servers.core.files.parameters import (
    Content,
    Directory,
    Files,
    IgnoreCase,
    Limit,
    MaxLines,
    Path,
    Pattern,
    StartLine,
)
from toolweave.servers.core.files.reading import TextPart, read_part
from toolweave.servers.core.files.refusals import is_folder
from toolweave.servers.core.files.roots import Root, Roots
from toolweave.servers.core.files.searching import FileSearch, Query
from toolweave.servers.envelope import success
from toolweave.servers.error_codes import INVALID_PARAMETER, ToolFailed
from toolweave.servers.tool_declaration import READS, declared_tool

Absent = SkipJsonSchema[None]

_SECONDS = 3.0
_MAX_FILES = 200_000
_MAX_CONTENT_BYTES = 256_000_000
_AT_ONCE = 2


class FileTools:
    """The tools as methods; their docstrings and annotations are what a model reads about them.

    Raises:
        ConfigError: TOOLWEAVE_FILE_IGNORE holds what is no pattern.
    """

    def __init__(self, settings: Settings) -> None:
        self._roots = Roots(settings.file_roots, private_folder=settings.data_dir)
        self._rules = IgnoreRules(settings.file_ignore, private_folder=settings.data_dir)
        self._max_bytes = settings.file_max_bytes
        # Searches are work for the processor; more of them at once would hold up everything else.
        self._searches = asyncio.Semaphore(_AT_ONCE)

    async def read_file(self, path: Path, start_line: StartLine = 1, max_lines: MaxLines | Absent = None) -> ToolResult:
        """Read a text file, such as source code, a document or a log.

        Use it when you know the path; find paths with search_files. A long file is read in parts: give start_line and
        max_lines, and go on with the next_line of the answer's metadata. Files that are not text are refused.
        """
        budget = self._budget()

        def read() -> tuple[str, int, TextPart]:
            with opened(self._roots, self._rules, *self._place(path)) as file:
                if file.is_folder:
                    raise is_folder()
                part = read_part(file, budget, first_line=start_line, max_lines=max_lines, max_bytes=self._max_bytes)
                return self._roots.shown(file.root, file.parts), file.info.st_size, part

        shown, size, part = await on_a_thread(read, budget)
        return success(
            {"path": shown, "content": part.text},
            size_bytes=size,
            encoding=part.encoding,
            first_line=part.first_line,
            last_line=part.last_line,
            total_lines=part.total_lines,
            next_line=part.next_line,
        )

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

        Use it to learn what is there ("*", "*.md"), to find a file whose name you know in part ("*invoice*"), or with
        content=true where something is written or defined in documents or source code. The paths it answers are the
        ones that read_file takes. Hidden secrets, and what .gitignore files put aside, are not searched.
        """
        if files is not None and not content:
            raise ToolFailed(INVALID_PARAMETER, "Parameter 'files' must be left out unless content is true.")
        budget = self._budget()
        query = Query(pattern, directory, content, files, ignore_case, limit)
        search = FileSearch(self._roots, self._rules, query, budget, max_bytes=self._max_bytes)
        async with self._searches:
            answer = await on_a_thread(search.run, budget)
        return success(
            answer.matches,
            count=len(answer.matches),
            truncated=budget.reached is not None,
            stopped_by=budget.reached,
            files_searched=answer.files,
            files_skipped=answer.skipped,
            folders_unreadable=answer.unreadable_folders,
            unusable_roots=answer.unusable_roots,
        )

    def _budget(self) -> Budget:
        return Budget(seconds=_SECONDS, files=_MAX_FILES, content_bytes=_MAX_CONTENT_BYTES)

    def _place(self, path: str) -> tuple[Root, list[str]]:
        if place := self._roots.locate(path):
            return place
        raise is_folder()


def add_file_tools(server: FastMCP[None], settings: Settings) -> None:
    """Let a server have the two tools.

    Raises:
        ConfigError: TOOLWEAVE_FILE_IGNORE holds what is no pattern.
    """
    files = FileTools(settings)
    server.add_tool(declared_tool(files.read_file, "Read a file", READS))
    server.add_tool(declared_tool(files.search_files, "Search files", READS))
