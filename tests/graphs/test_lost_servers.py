"""Calls whose server is lost between the model's turn and the call, or while it waits for approval (D-5, S-07)."""

import asyncio
import os
import signal
from dataclasses import replace
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from tests.fixtures.scripted_model import ScriptedModel, calling
from tests.graphs.gated_tools import GO, THREAD, results
from tests.servers.connections.peers import BOUND_S, QUICK, connection, misbehaving, misbehaving_http, pid_of, until
from toolweave.graphs import build_agent_loop
from toolweave.graphs.agent_loop import AgentGraph
from toolweave.graphs.plane_tools import PlaneTools
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane

SLOW_TO_RETURN = replace(QUICK, reconnect_delays_s=(1.0,))


def graph_calling(plane: ToolPlane, *calls: tuple[str, dict[str, Any], str]) -> AgentGraph:
    """Build a loop whose model makes these calls, and then ends."""
    model = ScriptedModel(turns=[calling(*calls), "understood"])
    return build_agent_loop(tools=PlaneTools(plane), model=model, checkpointer=InMemorySaver())


async def resumed(graph: AgentGraph) -> dict[str, tuple[str, str]]:
    async with asyncio.timeout(BOUND_S):
        return results(await graph.ainvoke(Command(resume="approve"), THREAD))


async def test_an_approved_call_waits_for_its_server_that_is_being_connected_again() -> None:
    config = misbehaving(prefix="", approve=("pid",), timeout_s=BOUND_S)
    async with open_tool_plane([config], timing=SLOW_TO_RETURN) as plane:
        await plane.wait_for_servers()
        graph = graph_calling(plane, ("pid", {}, "a"))
        assert "__interrupt__" in await graph.ainvoke(GO, THREAD)
        before = await pid_of(plane)
        os.kill(before, signal.SIGKILL)
        await until(plane, "down")

        [(status, text)] = (await resumed(graph)).values()

    assert status == "success"
    assert int(text) != before


async def test_a_call_of_a_server_that_is_down_is_an_error_with_the_reason() -> None:
    async with misbehaving_http("listens") as remote:
        config = replace(remote.config, prefix="", approve=("pid",))
        async with open_tool_plane([config], timing=QUICK) as plane:
            await plane.wait_for_servers()
            graph = graph_calling(plane, ("pid", {}, "approved"), ("echo", {}, "free"))
            assert "__interrupt__" in await graph.ainvoke(GO, THREAD)
            await remote.kill()
            async with asyncio.timeout(BOUND_S):
                while not connection(plane).is_known_down:
                    await connection(plane).status.wait_for_change()
            found = await resumed(graph)
            later = graph_calling(plane, ("pid", {}, "unapproved"))
            found |= results(await later.ainvoke(GO, THREAD))

    unavailable = "The tool server 'peer' is temporarily unavailable. Please try again in a few seconds."
    assert found == {
        "approved": ("error", unavailable),
        "free": ("error", unavailable),
        "unapproved": (
            "error",
            "Not executed: the server of this tool is not available right now. Please try again later.",
        ),
    }
