"""RemoteGraph of langgraph: our server's graphs called from other programs, alone and as a node of their graphs."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.pregel.remote import RemoteException, RemoteGraph
from langgraph.types import Command
from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.client import LangGraphClient, SyncLangGraphClient
from typing_extensions import TypedDict

from tests.fixtures.app_server import AppServer

pytestmark = pytest.mark.requirement("S-01")

LANGGRAPH_JSON = Path(__file__).parent.parent / "app" / "langgraph.json"
ON_POSTGRESQL = True


class Errand(TypedDict, total=False):
    n: int
    ask: bool
    answer: Any


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sdk_clients(app_server: AppServer) -> AsyncIterator[tuple[LangGraphClient, SyncLangGraphClient]]:
    """Give clients without retries, as RemoteGraph takes them."""
    with get_sync_client(url=app_server.url, api_key=None) as synchronous:
        async with get_client(url=app_server.url, api_key=None) as client:
            yield client, synchronous


@pytest.fixture
def remote(sdk_clients: tuple[LangGraphClient, SyncLangGraphClient]) -> Any:
    """Make remote graphs by name."""
    client, synchronous = sdk_clients
    return lambda name: RemoteGraph(name, client=client, sync_client=synchronous)


def on_thread(thread_id: str | None = None) -> Any:
    return {"configurable": {"thread_id": thread_id or str(uuid4())}}


def around(node: Any, state: type[Any]) -> Any:
    """Make a local graph whose middle is a remote one."""
    builder = StateGraph(state)
    builder.add_node("before", lambda state: {"n": state.get("n", 0) + 100} if "n" in state else {})
    builder.add_node("remote", node)
    builder.add_edge(START, "before")
    builder.add_edge("before", "remote")
    builder.add_edge("remote", END)
    return builder.compile(checkpointer=InMemorySaver())


def test_a_remote_graph_is_invoked_by_the_synchronous_client(remote: Any) -> None:
    assert remote("count").invoke({"n": 1}) == {"n": 4, "log": ["add", "double"]}
    assert list(remote("count").stream({"n": 1}, stream_mode="updates")) == [
        {"add": {"n": 2, "log": ["add"]}},
        {"double": {"n": 4, "log": ["double"]}},
    ]


async def test_its_drawing_shows_the_nodes_inside(remote: Any) -> None:
    drawing = await remote("family").aget_graph(xray=True)
    assert {"__start__", "parent", "child:step", "child:confirm", "__end__"} <= set(drawing.nodes)


async def test_its_thread_is_made_and_keeps_its_state_and_history(remote: Any) -> None:
    graph, config = remote("count"), on_thread()
    assert (await graph.ainvoke({"n": 1}, config))["n"] == 4
    state = await graph.aget_state(config)
    assert (state.values, state.next) == ({"n": 4, "log": ["add", "double"]}, ())
    assert state.config["configurable"]["thread_id"] == config["configurable"]["thread_id"]
    past = [one async for one in graph.aget_state_history(config, limit=10)]
    assert [one.next for one in past] == [(), ("double",), ("add",), ("__start__",)]
    assert past[0].parent_config == past[1].config
    after_add = past[1]
    assert after_add.tasks[0].name == "double"
    forked = await graph.aupdate_state(after_add.config, {"n": 10}, as_node="add")
    assert (await graph.aget_state(forked)).next == ("double",)
    assert await graph.ainvoke(None, config) == {"n": 20, "log": ["add", "double"]}


async def test_several_modes_and_subgraphs_are_streamed(remote: Any) -> None:
    stream = remote("family").astream({"n": 1}, stream_mode=["updates", "values"], subgraphs=True)
    parts = [part async for part in stream]
    inner = [(mode, data) for ns, mode, data in parts if ns and mode == "updates"]
    assert inner == [("updates", {"step": {"n": 3}}), ("updates", {"confirm": {"answer": "unasked"}})]
    assert {len(ns) for ns, _, _ in parts} == {0, 1}
    assert parts[-1] == ((), "values", {"n": 3, "answer": "unasked"})


async def test_version_two_of_the_stream_names_type_and_namespace(remote: Any) -> None:
    parts = [part async for part in remote("count").astream({"n": 1}, stream_mode="values", version="v2")]
    assert parts[-1] == {"type": "values", "ns": (), "data": {"n": 4, "log": ["add", "double"]}, "interrupts": ()}


async def test_a_failure_is_raised(remote: Any) -> None:
    with pytest.raises(RemoteException, match="cannot go on from 2"):
        await remote("broken").ainvoke({"n": 1})


async def test_an_interrupt_stops_it_and_a_command_resumes_it(remote: Any) -> None:
    graph, config = remote("family"), on_thread()
    first = await graph.ainvoke({"n": 1, "ask": True}, config)
    assert [one["value"] for one in first["__interrupt__"]] == [{"question": 3}]
    state = await graph.aget_state(config, subgraphs=True)
    assert state.next == ("child",)
    assert [one.value for one in state.interrupts] == [{"question": 3}]
    assert state.tasks[0].state.next == ("confirm",)
    assert await graph.ainvoke(Command(resume="yes"), config) == {"n": 3, "ask": True, "answer": "yes"}


async def test_it_is_a_node_of_another_graph(remote: Any) -> None:
    graph = around(remote("family"), Errand)
    assert await graph.ainvoke({"n": 1}, on_thread()) == {"n": 103, "answer": "unasked"}
    assert graph.invoke({"n": 1}, on_thread()) == {"n": 103, "answer": "unasked"}


async def test_its_tokens_and_inner_steps_reach_the_stream_of_the_graph_around_it(remote: Any) -> None:
    graph = around(remote("talk"), MessagesState)
    given = {"messages": [HumanMessage("good morning")]}
    stream = graph.astream(given, on_thread(), stream_mode=["messages", "updates", "custom"], subgraphs=True)
    parts = [part async for part in stream]
    tokens = [data[0]["content"] for ns, mode, data in parts if ns and mode == "messages"]
    assert "".join(tokens) == "you said: good morning"
    assert [data for _, mode, data in parts if mode == "custom"] == [{"message_count": 1}]
    updates = [(len(ns), next(iter(data))) for ns, mode, data in parts if mode == "updates"]
    assert updates == [(0, "before"), (1, "prepare"), (1, "model"), (0, "remote")]


async def test_its_interrupt_stops_the_graph_around_it_and_its_answer_resumes_both(remote: Any) -> None:
    graph, config = around(remote("family"), Errand), on_thread()
    first = await graph.ainvoke({"n": 1, "ask": True}, config)
    assert [one.value for one in first["__interrupt__"]] == [{"question": 103}]
    assert (await graph.aget_state(config)).next == ("remote",)
    # The remote thread has the same id; it waits at its interrupt, and is resumed there.
    assert (await remote("family").aget_state(config)).next == ("child",)
    answered = await remote("family").ainvoke(Command(resume="yes"), config)
    assert answered == {"n": 103, "ask": True, "answer": "yes"}
    # The graph around it calls it once more, and must get its result, not the interrupt again.
    assert await graph.ainvoke(Command(resume="yes"), config) == answered
    assert (await graph.aget_state(config)).next == ()


async def test_the_graph_around_it_interrupts_again_until_the_remote_run_is_resumed(remote: Any) -> None:
    graph, config = around(remote("family"), Errand), on_thread()
    first = await graph.ainvoke({"n": 1, "ask": True}, config)
    again = await graph.ainvoke(Command(resume="yes"), config)
    assert again["__interrupt__"] == first["__interrupt__"]


async def test_a_command_for_a_parent_graph_fails_a_run_without_one(remote: Any) -> None:
    with pytest.raises(RemoteException, match="ParentCommand"):
        await remote("hand_back").ainvoke({"n": 1})
