"""Do with our connection layer what a client scenario of the conformance suite wants."""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.mcp_conformance.suite import HERE, Check, client_checks
from toolweave.config.mcp import McpServerConfig
from toolweave.nodes.human_in_the_loop import HumanResponse, answer_question
from toolweave.servers.connections.context import CallContext, Elicitation, questions_in
from toolweave.servers.connections.oauth import TokenLocation
from toolweave.servers.connections.plane import open_tool_plane

SERVER = "suite"
BOUND_S = 60.0


class Client:
    """What our tool plane did with the server of a scenario: whether it connected, its tools, the call's result."""

    def __init__(self, tool: str | None = None, arguments: dict[str, Any] | None = None) -> None:
        self._tool = tool
        self._arguments = arguments or {}
        self.answered: Sequence[Elicitation] = ()
        self.state = ""
        self.tools: list[str] = []
        self.text = ""
        self.questions: list[Elicitation] = []

    async def play(self, node: str, scenario: str, results: Path) -> list[Check]:
        """Let the suite serve a scenario, use it, and give what the suite found."""

        async def handed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                received = json.loads(await reader.readline())
                await self.use(received["url"], received["context"])
                writer.write(b"0\n")
            finally:
                writer.close()

        async with await asyncio.start_server(handed, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            command = f"{sys.executable} -S -E {HERE / 'hand_over.py'} {port}"
            checks, output = await client_checks(node, command, scenario, results)
        assert checks, output
        return checks

    async def use(self, url: str, _context: dict[str, Any]) -> None:
        """Do what the scenario wants at its URL."""
        await self.call(McpServerConfig(name=SERVER, transport="http", url=url))

    async def call(self, config: McpServerConfig, place: TokenLocation | None = None) -> None:
        """Connect and make the call; the questions that are known already are answered with yes."""
        answers = tuple(answer_question(question, HumanResponse("approve")) for question in self.answered)
        async with open_tool_plane([config], token_place=place) as plane:
            await plane.wait_for_servers(timeout_s=BOUND_S)
            self.state = plane.health()[SERVER]["state"]
            self.tools = [tool.name for tool in await plane.tools()]
            if self._tool is not None:
                result = await plane.call(SERVER, self._tool, self._arguments, CallContext(answers=answers))
                self.text = "".join(getattr(content, "text", "") for content in result.content)
                self.questions = questions_in(result)
