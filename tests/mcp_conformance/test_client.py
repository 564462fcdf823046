"""Our connection layer against servers of the conformance suite: what a client has to do (C-09, T-07, S-07)."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_conformance.suite import HERE, Check, client_checks, passed, wrong
from toolweave.config.mcp import McpServerConfig
from toolweave.nodes.answer_form import answer_to
from toolweave.nodes.human_interrupt import HumanResponse
from toolweave.servers.connections.call_context import CallContext
from toolweave.servers.connections.plane import open_tool_plane
from toolweave.servers.connections.questions import Question, questions_of

pytestmark = pytest.mark.timeout(360)

SERVER = "suite"
BOUND_S = 20.0


class Client:
    """What our tool plane did with the server of a scenario: whether it connected, its tools, the call's result."""

    def __init__(self, tool: str | None = None, arguments: dict[str, Any] | None = None) -> None:
        self._tool = tool
        self._arguments = arguments or {}
        self.answered: Sequence[Question] = ()
        self.state = ""
        self.tools: list[str] = []
        self.text = ""
        self.questions: list[Question] = []

    async def use(self, url: str) -> None:
        """Connect and make the call; the questions that are known already are answered with yes."""
        answers = tuple(answer_to(question, HumanResponse("approve")) for question in self.answered)
        async with open_tool_plane([McpServerConfig(name=SERVER, transport="http", url=url)]) as plane:
            await plane.settle(timeout_s=BOUND_S)
            self.state = plane.health()[SERVER]["state"]
            self.tools = [tool.name for tool in await plane.tools()]
            if self._tool is not None:
                result = await plane.call(SERVER, self._tool, self._arguments, CallContext(answers=answers))
                self.text = "".join(getattr(content, "text", "") for content in result.content)
                self.questions = questions_of(result)

    async def play(self, node: str, scenario: str, results: Path) -> list[Check]:
        """Let the suite serve a scenario, use it, and give what the suite found."""

        async def handed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await self.use((await reader.readline()).decode().strip())
                writer.write(b"0\n")
            finally:
                writer.close()

        async with await asyncio.start_server(handed, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            command = f"{sys.executable} -S -E {HERE / 'hand_over.py'} {port}"
            checks, said = await client_checks(node, command, scenario, results)
        assert checks, said
        return checks


async def test_it_initializes_as_the_protocol_wants(node: str, tmp_path: Path) -> None:
    client = Client()
    checks = await client.play(node, "initialize", tmp_path / "run")
    assert passed(checks), wrong(checks)
    assert client.state == "ready"


async def test_it_calls_a_tool(node: str, tmp_path: Path) -> None:
    client = Client("add_numbers", {"a": 5, "b": 3})
    checks = await client.play(node, "tools_call", tmp_path / "run")
    assert passed(checks), wrong(checks)
    assert client.tools == ["suite_add_numbers"]
    assert "8" in client.text


async def test_a_question_approved_is_answered_with_its_defaults(node: str, tmp_path: Path) -> None:
    # A person takes longer than a call: it ends with its questions, and is issued anew with their answers (S-07). The
    # suite counts the first, so each call is played to a server of its own.
    client = Client("test_client_elicitation_defaults")
    await client.play(node, "elicitation-sep1034-client-defaults", tmp_path / "asked")
    assert len(client.questions) == 1
    client.answered = client.questions
    checks = await client.play(node, "elicitation-sep1034-client-defaults", tmp_path / "answered")
    assert passed(checks), wrong(checks)
    assert client.questions == []


async def test_it_opens_a_closed_stream_again_no_sooner_than_the_server_wants(node: str, tmp_path: Path) -> None:
    client = Client("test_reconnection")
    checks = {check.id: check for check in await client.play(node, "sse-retry", tmp_path / "run")}
    assert checks["client-sse-graceful-reconnect"].status == "SUCCESS"
    assert checks["client-sse-last-event-id"].status == "SUCCESS"
    # Too late is a matter of how busy the machine is, too early never.
    timing = checks["client-sse-retry-timing"].details
    assert timing["actualDelayMs"] >= timing["minAcceptableMs"]
    assert client.text == "Reconnection test completed successfully"
