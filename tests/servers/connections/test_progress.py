"""A call's progress becomes events: few, in order, the last one always, none after the call."""

import asyncio
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from tests.servers.connections.peers import BOUND_S, QUICK, talkative
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane
from toolweave.servers.connections.tool import ProgressEvents, progress_callback

Written = list[dict[str, Any]]


def progress_events(written: Written, interval_s: float = 60.0) -> ProgressEvents:
    def write(event: dict[str, Any]) -> None:
        asyncio.get_running_loop()  # a thread without a loop fails here
        written.append(event)

    return ProgressEvents(write, {"tool": "t"}, interval_s)


async def turns(count: int = 5) -> None:
    """Let what was scheduled happen."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_the_first_report_is_written_at_once_and_of_the_rest_the_newest_at_the_end() -> None:
    written: Written = []
    events = progress_events(written)
    await asyncio.to_thread(events.report, 0, 1_000, "step 0")
    for number in range(1, 1_000):
        events.report(number, 1_000, f"step {number}")
    await turns()
    assert [event["progress"] for event in written] == [0]
    events.end()
    events.report(1_000, 1_000, "after the end")
    await turns()
    assert [event["progress"] for event in written] == [0, 999]
    assert written[-1] == {"type": "tool_progress", "tool": "t", "progress": 999, "total": 1_000, "message": "step 999"}


@pytest.mark.parametrize("interval_s", [0.0, 0.01])
async def test_after_a_pause_a_report_is_written_without_another(interval_s: float) -> None:
    written: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    events = ProgressEvents(written.put_nowait, {}, interval_s)
    async with asyncio.timeout(BOUND_S):
        for number in range(3):
            events.report(number, None, None)
            assert (await written.get())["progress"] == number
    events.end()
    assert written.empty()


@pytest.mark.filterwarnings("error")
def test_a_report_for_a_graph_whose_loop_has_ended_is_dropped() -> None:
    written: Written = []

    async def begin() -> ProgressEvents:
        return progress_events(written)

    asyncio.run(begin()).report(1, None, None)
    assert written == []


async def test_outside_of_a_graph_no_progress_is_requested() -> None:
    with progress_callback(tool="t") as on_progress:
        assert on_progress is None
    async with open_tool_plane([talkative(prefix="")], timing=QUICK) as plane:
        [tool] = [tool for tool in await plane.tools() if tool.name == "progress"]
        assert await tool.ainvoke({"reports": [{"progress": 1}]}) == "nobody wants to know"


class State(TypedDict):
    """A graph that calls one tool."""

    answer: str


async def stream(plane: ToolPlane) -> Written:
    """Call the tool in a node of a graph, and give what its custom stream has."""
    [tool] = [tool for tool in await plane.tools() if tool.name == "progress"]

    async def call(state: State, config: RunnableConfig) -> State:
        reports = [{"progress": number, "total": 3} for number in (1, 2, 3)]
        return {"answer": await tool.ainvoke({"reports": reports}, config)}

    graph = StateGraph(State)
    graph.add_node("call", call)
    graph.add_edge(START, "call")
    return [part async for part in graph.compile().astream({"answer": ""}, stream_mode="custom")]


async def test_a_graph_on_another_loop_than_the_planes_streams_progress() -> None:
    async with open_tool_plane([talkative(prefix="")], timing=QUICK) as plane:
        here = await stream(plane)
        there = await asyncio.to_thread(asyncio.run, stream(plane))
    for written in (here, there):
        assert [event["progress"] for event in written] == [1, 3]
