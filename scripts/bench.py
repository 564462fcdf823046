"""Print the figures that the README gives: tool discovery, a todo request end to end, a run beside the bare graph.

The last one is a ratio of two things measured in turn in the same process: trust it before single figures.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import uuid4

import uvloop
from langchain_core.messages import AIMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.fixtures.app_server import AppProcess
from toolweave.config.mcp import served_mcp_config
from toolweave.config.settings import load_settings
from toolweave.servers.connections.plane import open_tool_plane

BENCH_APP = """
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

async def respond(state: MessagesState):
    return {"messages": [AIMessage(content=f"echo: {state['messages'][-1].content}")]}

agent = StateGraph(MessagesState).add_node("respond", respond).add_edge(START, "respond").compile()
"""
HELLO = {"messages": [{"role": "user", "content": "hello"}]}


async def respond(state: MessagesState) -> dict[str, list[AIMessage]]:
    return {"messages": [AIMessage(content=f"echo: {state['messages'][-1].content}")]}


async def milliseconds(work: Callable[[], Awaitable[object]], rounds: int) -> list[float]:
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        await work()
        taken.append((time.perf_counter() - started) * 1000)
    return taken


async def discovery(folder: Path) -> list[float]:
    """T-01: from opening the tool plane to five registered tools, spawning the todo server included."""
    settings = load_settings(data_dir=folder)

    async def discover() -> None:
        async with open_tool_plane(served_mcp_config(settings).servers) as plane:
            assert len(await plane.tools()) == 5
            found.append((time.perf_counter() - started) * 1000)

    found: list[float] = []
    for _ in range(6):
        started = time.perf_counter()
        await discover()
    return found[1:]


async def todo_requests(sdk: LangGraphClient, rounds: int) -> list[float]:
    """T-02: one request through the SDK, model turn, tool call, model turn, answer."""
    number = iter(range(rounds + 3))

    async def ask() -> None:
        content = f"Add a task to buy milk number {next(number)}"
        turn = {"messages": [{"role": "user", "content": content}]}
        values = await sdk.runs.wait(None, "todo_agent", input=turn)
        assert values["messages"][-2]["type"] == "tool"

    await milliseconds(ask, 3)
    return await milliseconds(ask, rounds)


async def bare_graph(folder: Path, rounds: int) -> list[float]:
    """The floor: the same one-node graph, invoked in process with a durable checkpointer."""
    async with AsyncSqliteSaver.from_conn_string(str(folder / "floor.db")) as saver:
        await saver.conn.execute("PRAGMA journal_mode=WAL")
        await saver.conn.execute("PRAGMA synchronous=NORMAL")
        graph = StateGraph(MessagesState).add_node("respond", respond).add_edge(START, "respond")
        compiled = graph.compile(checkpointer=saver)

        async def invoke() -> object:
            return await compiled.ainvoke(HELLO, {"configurable": {"thread_id": str(uuid4())}})  # type: ignore[arg-type]

        await milliseconds(invoke, 30)
        return await milliseconds(invoke, rounds)


async def served_runs(sdk: LangGraphClient, rounds: int) -> list[float]:
    """A thread and a run over HTTP, everything on."""

    async def run() -> object:
        return await sdk.runs.wait(str(uuid4()), "agent", input=HELLO, if_not_exists="create")

    await milliseconds(run, 30)
    return await milliseconds(run, rounds)


def show(label: str, figures: list[float], goal: str = "") -> None:
    low, middle, high = min(figures), statistics.median(figures), max(figures)
    print(f"{label:<52} {middle:8.1f} ms   ({low:.1f} … {high:.1f}, {len(figures)} rounds) {goal}")


async def main() -> None:
    root = Path(__file__).parent.parent
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        show("tools of the todo server registered, spawn included", await discovery(folder / "plane"), "goal 2000")
        ours = AppProcess(root / "langgraph.json", folder / "ours", {"TOOLWEAVE_MODEL": "offline"})
        ours.start()
        try:
            async with get_client(url=ours.url, api_key=None) as sdk:
                show("a todo request end to end, offline model", await todo_requests(sdk, 50), "goal 300")
        finally:
            ours.stop()
        (folder / "app.py").write_text(BENCH_APP, encoding="utf-8")
        (folder / "langgraph.json").write_text('{"graphs": {"agent": "./app.py:agent"}}', encoding="utf-8")
        served = AppProcess(folder / "langgraph.json", folder / "served", {})
        served.start()
        try:
            async with get_client(url=served.url, api_key=None) as sdk:
                floors, runs = [], []
                for _ in range(3):
                    floors += await bare_graph(folder, 100)
                    runs += await served_runs(sdk, 100)
        finally:
            served.stop()
        show("a one-node graph invoked in process (the floor)", floors)
        show("the same graph by runs/wait over HTTP", runs)
        print(f"{'ratio to the floor':<52} {statistics.median(runs) / statistics.median(floors):8.1f} x    goal 3.5")


if __name__ == "__main__":
    uvloop.run(main())
