"""U-05: `invoke` and `stream` of the graphs, which consist of async nodes."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.config import get_store, get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from tests.fixtures.scripted_model import ScriptedModel, add, calling
from tests.fixtures.shop_api import ShopApi
from tests.graphs.gated_tools import GO, THREAD, Desk, requests, results
from tests.graphs.shop_workflow import chosen, shop_workflow
from toolweave.graphs import AgentLoop, build_agent_loop, build_todo_agent

pytestmark = pytest.mark.requirement("U-05", "S-04")
TENANT: ContextVar[str] = ContextVar("tenant")
ADD = calling(("add", {"a": 1, "b": 2}))


def adding(**options: Any) -> Any:
    return build_agent_loop(tools=[add], model=ScriptedModel(turns=[ADD, "one two three"]), **options)


def texts(result: Any) -> list[str]:
    return [message.text for message in result["messages"]]


def test_invoke_answers_as_ainvoke_does() -> None:
    assert texts(adding().invoke(GO)) == texts(asyncio.run(adding().ainvoke(GO))) == ["go", "", "3", "one two three"]
    assert build_todo_agent(tools=[], model="offline").invoke(GO)["status"] == "no_tools"


async def test_invoke_works_inside_a_running_event_loop() -> None:
    assert texts(adding().invoke(GO))[-1] == "one two three"


def test_stream_yields_the_tokens_while_they_arrive() -> None:
    parts = list(adding().stream(GO, stream_mode="messages"))

    assert [part.text for part, _ in parts if part.type == "AIMessageChunk"][-4:] == ["one", " two", " three", ""]


@pytest.mark.parametrize("parent", [False, True], ids=["alone", "in a synchronous graph"])
def test_a_person_approves_a_call_between_two_invokes(parent: bool) -> None:
    desk = Desk()
    graph: Any = desk.graph(calling(("erase", {"path": "a"}, "e"), ("look", {"path": "b"}, "l")), "ok")
    if parent:
        host = StateGraph(MessagesState)
        host.add_node("agent", build_agent_loop(tools=desk.tools, model=desk.model))
        host.add_edge(START, "agent")
        graph = host.compile(checkpointer=InMemorySaver())

    assert [each["action_request"]["action"] for each in requests(graph.invoke(GO, THREAD))] == ["erase"]
    result = graph.invoke(Command(resume=[{"type": "approve"}]), THREAD)

    assert results(result) == {"e": ("success", "erase done"), "l": ("success", "look done")}
    assert texts(result)[-1] == "ok"


def test_a_tool_gets_the_callers_context_store_and_callbacks() -> None:
    started: list[str] = []

    class Recorder(BaseCallbackHandler):
        def on_tool_start(self, serialized: dict[str, Any], *_: Any, **__: Any) -> None:
            started.append(serialized["name"])

    async def whoami(config: RunnableConfig) -> str:
        """Name the caller."""
        get_stream_writer()("asked")
        item = get_store().get(("users",), "1")
        assert item is not None
        return f"{TENANT.get()} {config['configurable']['user']} {item.value['name']}"

    store = InMemoryStore()
    store.put(("users",), "1", {"name": "Ada"})
    graph: Any = build_agent_loop(
        tools=[whoami], model=ScriptedModel(turns=[calling(("whoami", {})), "ok"]), store=store
    )
    token = TENANT.set("acme")
    try:
        config = {"configurable": {"user": "7"}, "callbacks": [Recorder()]}
        parts = list(graph.stream(GO, config, stream_mode=["custom", "values"]))
    finally:
        TENANT.reset(token)

    assert texts(parts[-1][1])[2] == "acme 7 Ada"
    assert ("custom", "asked") in parts
    assert started == ["whoami"]


def test_the_calls_of_a_turn_run_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=60)

    def meet(name: str) -> str:
        both.wait()
        return name

    model = ScriptedModel(turns=[calling(("meet", {"name": "a"}), ("meet", {"name": "b"})), "ok"])
    assert sorted(texts(build_agent_loop(tools=[meet], model=model).invoke(GO))[2:4]) == ["a", "b"]


@pytest.mark.parametrize("error", [SystemExit(2), KeyboardInterrupt()], ids=repr)
def test_a_tool_that_exits_ends_its_own_call_only(error: BaseException) -> None:
    waiting, done = threading.Event(), threading.Event()

    def leave() -> str:
        raise error

    def wait() -> str:
        waiting.set()
        return str(done.wait(60))

    model = ScriptedModel(turns=[calling(("leave", {}))])
    leaving: Any = build_agent_loop(tools=[leave], model=model)
    other: Any = build_agent_loop(tools=[wait], model=ScriptedModel(turns=[calling(("wait", {})), "ok"]))
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(other.invoke, GO)
        assert waiting.wait(60)
        for call in (partial(leaving.invoke, GO), partial(AgentLoop([leave], model).run_sync, "go")):
            with pytest.raises(type(error)):
                call()
        done.set()
        assert texts(running.result())[2:] == ["True", "ok"]
    assert texts(adding().invoke(GO))[-1] == "one two three"


def test_a_synchronous_call_in_an_awaited_tool_is_refused_and_does_not_hang() -> None:
    async def nested() -> str:
        return texts(adding().invoke(GO))[-1]

    graph: Any = build_agent_loop(tools=[nested], model=ScriptedModel(turns=[calling(("nested", {})), "ok"]))

    assert "use `await` there" in texts(graph.invoke(GO))[2]
    assert texts(asyncio.run(graph.ainvoke(GO)))[-1] == "ok"


async def test_a_checkpointer_that_must_be_awaited_is_refused_with_the_way_out() -> None:
    async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
        graph = adding(checkpointer=saver)
        with pytest.raises(RuntimeError, match=r"AsyncSqliteSaver .*await graph\.ainvoke"):
            graph.invoke(GO, THREAD)
        assert texts(await asyncio.to_thread(graph.invoke, GO, THREAD))[-1] == "one two three"
    with pytest.raises(RuntimeError, match="BaseCheckpointSaver"):
        next(adding(checkpointer=BaseCheckpointSaver()).stream(GO, THREAD))


def test_a_checkpointer_whose_event_loop_has_ended_is_refused() -> None:
    async def opened() -> AsyncSqliteSaver:
        async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
            return saver

    with pytest.raises(RuntimeError, match="AsyncSqliteSaver"):
        adding(checkpointer=asyncio.run(opened())).invoke(GO, THREAD)


def test_the_workflow_answers_a_synchronous_call(shop: ShopApi) -> None:
    with shop_workflow(shop, chosen("get_product", {"product_id": 2})) as ask:
        wanted: Any = {"user_instructions": "Show product 2", "tool_ids": ["get_product"]}
        graph: Any = ask.graph
        answer = graph.invoke(wanted, THREAD)
        refused = graph.invoke({**wanted, "tool_ids": ["nothing"]}, THREAD)

    assert (answer["status"], answer["error"]) == ("success", None)
    assert (refused["status"], refused["error_stage"]) == ("error", "tool_retrieval")
