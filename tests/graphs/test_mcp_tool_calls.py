"""The result that the model gets when a call of an MCP tool goes wrong, through the whole loop (A-08, T-10, T-12)."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from langchain_core.messages import AIMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from tests.fixtures.loop_clock import pass_time
from tests.fixtures.openai_wire import WireCall, WireTurn, openai_wire
from tests.fixtures.scripted_model import ScriptedModel, calling
from tests.graphs.gated_tools import GO
from tests.servers.connections.peers import LIMIT_S, QUICK, connection, log_records, misbehaving, talkative
from toolweave.graphs import build_agent_loop
from toolweave.graphs.plane_tools import PlaneTools
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane() -> AsyncIterator[ToolPlane]:
    servers = [talkative(prefix=""), misbehaving(timeout_s=LIMIT_S, include=("sleep", "rpc_error", "wrong_shape"))]
    async with open_tool_plane(servers, timing=QUICK) as opened:
        yield opened


async def results_of(plane: ToolPlane, turn: AIMessage) -> list[ToolMessage]:
    """Run one turn of tool calls; the run must go on to the model's answer."""
    graph = build_agent_loop(tools=PlaneTools(plane), model=ScriptedModel(turns=[turn, "understood"]))
    result = await graph.ainvoke(GO)
    assert (result["status"], result["messages"][-1].text) == ("done", "understood")
    return [message for message in result["messages"] if isinstance(message, ToolMessage)]


async def test_wrong_arguments_are_answered_and_the_good_call_beside_them_is_carried_out(plane: ToolPlane) -> None:
    wrong = ("create_todo", {"title": 7, "priority": "urgent", "colour": "red"})
    right = ("create_todo", {"title": "Buy milk"})
    refused, created = await results_of(plane, calling(wrong, right))
    assert (refused.status, created.status) == ("error", "success")
    assert refused.text == (
        "The call of 'create_todo' was not sent, its arguments do not fit: title must be a string; got 7; "
        "priority must be one of low, medium, high; got 'urgent'; "
        "colour is not a known field; known: title, priority, tags, position. Correct them and call the tool again."
    )
    assert created.text == '{"title": "Buy milk"}'


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("peer_wrong_shape", {}, "The tool server 'peer' gave an answer that could not be understood."),
        ("peer_rpc_error", {"code": -32603}, "The tool server 'peer' gave an answer that could not be understood."),
        ("peer_sleep", {"seconds": 600}, "The tool 'sleep' took longer than 30 seconds and was stopped."),
    ],
)
@pytest.mark.requirement("T-12")
async def test_a_failure_of_the_server_is_a_sentence_and_its_own_text_is_in_the_log_only(
    plane: ToolPlane, tool: str, arguments: dict[str, object], text: str
) -> None:
    with log_records() as records:
        running = asyncio.create_task(results_of(plane, calling((tool, arguments))))
        if tool == "peer_sleep":
            while not (session := connection(plane)._session) or not session.is_busy:  # noqa: ASYNC110
                await asyncio.sleep(0)
            pass_time(LIMIT_S)
        [result] = await running
    assert result.status == "error"
    assert result.text.startswith(text)
    assert "own words" not in result.text
    if tool == "peer_rpc_error":
        assert any("the server's own words" in record["message"] for record in records)


LINK = {"type": "resource_link", "uri": "http://169.254.169.254/latest", "name": "instance"}
PICTURE = {**LINK, "uri": "file:///etc/passwd", "mimeType": "image/png"}
BLOB = {"type": "resource", "resource": {"uri": "a://b", "blob": "AAAA"}}
ARCHIVE = {"type": "resource", "resource": {"uri": "a://b", "blob": "AAAA", "mimeType": "application/zip"}}
PAPER = {"type": "resource", "resource": {"uri": "a://b", "blob": "AAAA", "mimeType": "application/pdf"}}


@pytest.mark.parametrize(
    ("block", "sent"),
    [
        (LINK, "[resource instance, http://169.254.169.254/latest, not shown]"),
        (PICTURE, "[resource instance, file:///etc/passwd of type image/png, not shown]"),
        (BLOB, "[file, 3 bytes, not shown]"),
        (ARCHIVE, "[file of type application/zip, 3 bytes, not shown]"),
        (PAPER, [{"type": "file", "file": {"filename": "file.pdf", "file_data": "data:application/pdf;base64,AAAA"}}]),
    ],
)
async def test_no_kind_of_result_keeps_a_thread_from_going_on(plane: ToolPlane, block: Any, sent: Any) -> None:
    arguments = json.dumps({"content": [block]})
    turns = [WireTurn(calls=(WireCall("blocks", arguments),)), WireTurn(text="understood")]
    with openai_wire(turns) as endpoint:
        model = ChatOpenAI(model="m", base_url=endpoint.base_url, api_key=SecretStr("none"))
        graph = build_agent_loop(tools=PlaneTools(plane), model=model)
        result = await graph.ainvoke(GO)
        assert result["messages"][-1].text == "understood"
        assert endpoint.requests[-1].messages[-1]["content"] == sent
