"""Graphs for the clients' tests: tokens, tools, a question to a human, a subgraph, a failure, the store."""

import operator
from typing import Annotated, Any

from client_model import WordByWord  # type: ignore[import-not-found]
from langchain_core.messages import AIMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, Send, interrupt
from typing_extensions import TypedDict

from tests.fixtures.gated_app import Graph, chain


class Style(TypedDict, total=False):
    prefix: str


class Log(TypedDict, total=False):
    n: int
    log: Annotated[list[str], operator.add]


class Errand(TypedDict, total=False):
    n: int
    ask: bool
    answer: Any


class Memory(TypedDict, total=False):
    key: str
    value: Any


async def prepare(state: MessagesState) -> None:
    get_stream_writer()({"message_count": len(state["messages"])})


async def say(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
    model = WordByWord(prefix=config["configurable"].get("prefix", "you said:"))
    return {"messages": [await model.ainvoke(state["messages"], config)]}


async def plan(state: MessagesState) -> dict[str, Any]:
    number = len(state["messages"])
    call = {"name": "send", "args": {"text": state["messages"][-1].text}, "id": f"call-{number}"}
    return {"messages": [AIMessage("", id=f"plan-{number}", tool_calls=[call])]}


async def review(state: MessagesState) -> dict[str, Any]:
    call = planned_call(state)
    return decided(call, interrupt({"question": "Send it?", "args": call["args"]}))


async def review_actions(state: MessagesState) -> dict[str, Any]:
    """Interrupt with the request that Agent Chat UI and LangChain's middleware know."""
    call = planned_call(state)
    request = {"action_requests": [{"name": "send", "args": call["args"]}]}
    configs = [{"action_name": "send", "allowed_decisions": ["approve", "edit", "reject"]}]
    return decided(call, interrupt({**request, "review_configs": configs}))


def planned_call(state: MessagesState) -> ToolCall:
    planned = state["messages"][-1]
    assert isinstance(planned, AIMessage)
    (call,) = planned.tool_calls
    return call


def decided(call: ToolCall, decision: Any) -> dict[str, Any]:
    return {"messages": [ToolMessage(f"decided: {decision}", tool_call_id=call["id"], name="send")]}


async def add(state: Log) -> Log:
    return {"n": state.get("n", 0) + 1, "log": ["add"]}


async def double(state: Log) -> Log:
    get_stream_writer()({"doubling": state.get("n", 0)})
    return {"n": state.get("n", 0) * 2, "log": ["double"]}


async def step(state: Errand) -> Errand:
    return {"n": state.get("n", 0) + 1}


async def confirm(state: Errand) -> Errand:
    return {"answer": interrupt({"question": state.get("n")}) if state.get("ask") else "unasked"}


async def fail(state: Log) -> Log:
    raise ValueError(f"cannot go on from {state.get('n')}")


async def keep(state: Memory, runtime: Runtime[None]) -> Memory:
    assert runtime.store is not None
    if "value" in state:
        await runtime.store.aput(("memory",), state["key"], {"value": state["value"]})
    item = await runtime.store.aget(("memory",), state["key"])
    return {"value": item.value["value"] if item else None}


async def hand_out(state: MessagesState) -> dict[str, Any]:
    text = state["messages"][-1].text
    names = ("first", "second")
    # The SDK finds the call of a worker by its description.
    args = {name: {"subagent_type": "worker", "description": f"{text} for {name}"} for name in names}
    calls = [{"name": "task", "args": args[name], "id": f"call-{name}"} for name in names]
    return {"messages": [AIMessage("", id="handed-out", tool_calls=calls)]}


def to_workers(state: MessagesState) -> list[Send]:
    planned = state["messages"][-1]
    assert isinstance(planned, AIMessage)
    return [Send("tools", call) for call in planned.tool_calls]


async def work(call: ToolCall) -> dict[str, Any]:
    prefix = f"{str(call['id']).removeprefix('call-')}:"
    given = {"messages": [HumanMessage(call["args"]["description"])]}
    done = await chain(MessagesState, ("say", say)).ainvoke(given, {"configurable": {"prefix": prefix}})
    return {"messages": [ToolMessage(done["messages"][-1].text, tool_call_id=str(call["id"]), name="task")]}


def delegating() -> Graph:
    """Hand a message to two workers, graphs of their own that a tool's node calls, and say the last answer again."""
    builder = StateGraph(MessagesState)
    nodes: dict[str, Any] = {"hand_out": hand_out, "tools": work, "reply": say}
    for name, node in nodes.items():
        builder.add_node(name, node)
    builder.add_edge(START, "hand_out")
    builder.add_conditional_edges("hand_out", to_workers, ["tools"])
    builder.add_edge("tools", "reply")
    builder.add_edge("reply", END)
    return builder.compile()


talk = chain(MessagesState, ("prepare", prepare), ("model", say), context=Style)
approve = chain(MessagesState, ("plan", plan), ("review", review), ("reply", say))
approve_actions = chain(MessagesState, ("plan", plan), ("review", review_actions), ("reply", say))
count = chain(Log, ("add", add), ("double", double))
family = chain(Errand, ("parent", step), ("child", chain(Errand, ("step", step), ("confirm", confirm))))
broken = chain(Log, ("add", add), ("fail", fail))
remember = chain(Memory, ("keep", keep))
delegate = delegating()


async def hand_back(state: Log) -> Command[Any]:
    return Command(graph=Command.PARENT, goto="after", update={"n": state.get("n", 0) + 5})


handing_back = chain(Log, ("hand_back", hand_back))
