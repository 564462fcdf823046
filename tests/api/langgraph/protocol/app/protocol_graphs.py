"""Graphs for the tests of the newer protocol: deterministic and offline."""

import operator
from typing import Annotated, Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.stream import StreamChannel, StreamTransformer
from langgraph.stream.transformers import CustomTransformer, UpdatesTransformer
from langgraph.types import interrupt
from typing_extensions import TypedDict

from tests.fixtures.gated_app import Graph, chain, pass_gate


class Log(TypedDict, total=False):
    n: int
    gate: str
    log: Annotated[list[Any], operator.add]


async def add(state: Log) -> Log:
    write = get_stream_writer()
    write({"name": "progress", "payload": 1})
    write("adding")
    return {"n": state.get("n", 0) + 1, "log": ["add"]}


async def explode(_state: Log) -> Log:
    raise ValueError("cannot go on")


async def ask_human(state: Log) -> Log:
    first = interrupt({"question": state.get("n")})
    return {"log": [f"asked: {first}"]}


async def ask_first(_state: Log) -> Log:
    return {"log": [interrupt("first")]}


async def ask_second(_state: Log) -> Log:
    return {"log": [interrupt({"about": HumanMessage("second", id="m")})]}


async def wait_at_gate(state: Log) -> Log:
    await pass_gate(state["gate"])
    return {"log": ["passed"]}


def answering(text: str) -> Any:
    async def answer(state: MessagesState) -> dict[str, Any]:
        model = GenericFakeChatModel(messages=iter([AIMessage(text)]))
        return {"messages": [await model.ainvoke(state["messages"])]}

    return answer


async def say(state: MessagesState) -> dict[str, Any]:
    result: dict[str, Any] = await answering(f"hello {state['messages'][-1].content}")(state)
    return result


@tool
async def add_up(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def fall_over(a: int) -> int:
    """Fail."""
    raise ValueError(f"no good: {a}")


async def call_tools(_state: MessagesState) -> dict[str, Any]:
    calls = [
        {"id": "call-1", "name": "add_up", "args": {"a": 1, "b": 2}},
        {"id": "call-2", "name": "fall_over", "args": {"a": 7}},
    ]
    return {"messages": [AIMessage("", id="calling", tool_calls=calls)]}


def both(state: type[Any], *nodes: tuple[str, Any]) -> Graph:
    builder = StateGraph(state)
    for name, node in nodes:
        builder.add_node(name, node)
        builder.add_edge(START, name)
    return builder.compile()


class Echoes(StreamTransformer):
    """Repeat what nodes write on a channel of its own."""

    required_stream_modes = ("custom",)

    def init(self) -> dict[str, Any]:
        self.echoes: StreamChannel[Any] = StreamChannel("echo")
        return {"echo": self.echoes}

    def process(self, event: Any) -> bool:
        if event["method"] == "custom":
            self.echoes.push(event["params"]["data"])
        return True


speak = chain(MessagesState, ("say", say))
count = chain(Log, ("add", add), ("again", add))
inner = chain(Log, ("add", add))
middle = chain(Log, ("inner", inner))
nested = chain(Log, ("middle", middle), ("after", add))
broken = chain(Log, ("fine", add), ("child", chain(Log, ("explode", explode))))
ask = chain(Log, ("ask", ask_human), ("after", add))
ask_both = both(Log, ("first", ask_first), ("second", ask_second))
ask_inside = chain(Log, ("child", chain(Log, ("ask", ask_human))))
stopping = chain(Log, ("before", add), ("after", add), interrupt_before=["after"])
gated = chain(Log, ("add", add), ("wait", wait_at_gate), ("again", add))
tooled = chain(MessagesState, ("call", call_tools), ("tools", ToolNode([add_up, fall_over], handle_tool_errors=True)))
telling = chain(Log, ("add", add), transformers=[Echoes, UpdatesTransformer, CustomTransformer])
duet = both(MessagesState, ("high", answering("la la la")), ("low", answering("bom bom bom")))
