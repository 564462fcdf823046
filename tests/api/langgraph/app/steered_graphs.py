"""Graphs for the API's tests: deterministic, offline, and steered by gates."""

import operator
from typing import Annotated, Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer
from langgraph.graph import MessagesState
from langgraph.types import interrupt
from typing_extensions import TypedDict

from tests.fixtures.gated_app import Graph, chain, pass_gate


class Log(TypedDict, total=False):
    n: int
    gate: str
    log: Annotated[list[Any], operator.add]


class Style(TypedDict, total=False):
    greeting: str


async def add(state: Log) -> Log:
    return {"n": state.get("n", 0) + 1, "log": ["add"]}


async def double(state: Log) -> Log:
    get_stream_writer()({"doubling": state.get("n", 0)})
    return {"n": state.get("n", 0) * 2, "log": ["double"]}


async def wait_at_gate(state: Log) -> Log:
    await pass_gate(state["gate"])
    return {"log": ["passed"]}


async def ask_human(state: Log) -> Log:
    return {"log": [interrupt({"question": state.get("n")})]}


async def explode(state: Log) -> Log:
    raise ValueError(f"cannot go on from {state.get('n')}")


async def say(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
    greeting = config["configurable"].get("greeting", "hello")
    model = GenericFakeChatModel(messages=iter([AIMessage(content=f"{greeting} {state['messages'][-1].content}")]))
    return {"messages": [await model.ainvoke(state["messages"], config)]}


steps = chain(Log, ("add", add), ("double", double))
talk = chain(MessagesState, ("say", say), context=Style)
ask = chain(Log, ("ask_human", ask_human), ("add", add))
gated = chain(Log, ("add", add), ("hold", wait_at_gate), ("double", double))
broken = chain(Log, ("add", add), ("explode", explode))
nested = chain(Log, ("add", add), ("inner", chain(Log, ("double", double))))


def make_steps(config: RunnableConfig) -> Graph:
    """Make a graph for one run."""
    return chain(Log, ("add", add))
