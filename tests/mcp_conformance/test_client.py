"""Our connection layer against servers of the conformance suite: what a client has to do (T-07, S-07)."""

from pathlib import Path

import pytest

from tests.mcp_conformance.client import Client
from tests.mcp_conformance.suite import passed, wrong

pytestmark = pytest.mark.timeout(360)


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
