"""Call the file tools on a hostile tree and look at every answer for what is outside."""

import json
import os
from pathlib import Path
from typing import Any

from fastmcp.exceptions import ValidationError
from fastmcp.tools import Tool

from tests.servers.core.files.file_client import SECRET
from toolweave.config.settings import Settings
from toolweave.servers.core.files.tools import FileTools
from toolweave.servers.error_codes import ToolFailed
from toolweave.servers.tool_server import READ_ONLY, declare_tool, failure


class Place:
    """The file tools on a hostile tree, called as the server calls them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        tools = FileTools(Settings(file_roots=(str(root),)))
        self._read = declare_tool(tools.read_file, "Read", READ_ONLY)
        self._search = declare_tool(tools.search_files, "Search", READ_ONLY)

    async def ask(self, path: str) -> dict[str, Any]:
        """Read `path`, search in it and for it; nothing of the answers may come from outside."""
        await self.search(pattern="*", directory=path, limit=1000)
        await self.search(pattern=path)
        await self.search(pattern=SECRET, content=True, files=path)
        return await self.read(path)

    async def read(self, path: str) -> dict[str, Any]:
        return await self._call(self._read, path=path)

    async def search(self, **arguments: Any) -> dict[str, Any]:
        answer = await self._call(self._search, **arguments)
        for match in answer.get("data", ()):
            assert self.real(match["path"]) in {match["path"], None}
        return answer

    async def _call(self, tool: Tool, **arguments: Any) -> dict[str, Any]:
        try:
            answer = (await tool.run(arguments)).structured_content
        except ValidationError:
            return {"status": "error", "error": {"code": "invalid_parameter"}}
        except ToolFailed as refusal:
            answer = failure(refusal.code, str(refusal), refusal.suggestion).structured_content
        assert answer is not None
        text = json.dumps(answer, ensure_ascii=False)
        assert SECRET not in text
        assert str(self.root.parent) not in text
        return answer

    def real(self, path: str) -> str | None:
        """Find where the kernel finds a regular file by this path, as a path below the root; None if outside."""
        try:
            found = Path(os.path.realpath(self.root / path))
        except OSError:  # before Python 3.13, of a link that is replaced in that moment
            return None
        return str(found.relative_to(self.root)) if found.is_relative_to(self.root) and found.is_file() else None
