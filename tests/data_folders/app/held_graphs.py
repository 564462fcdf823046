"""Graphs that are killed in a node, that wait for a person, that do both, and one that needs its caller's token."""

import asyncio
import operator
import os
from typing import Annotated

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from typing_extensions import TypedDict


class Log(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


async def first(state: Log) -> Log:
    return {"log": ["first"]}


async def hold(state: Log) -> Log:
    if "HOLD" in os.environ:
        await asyncio.Event().wait()
    return {"log": ["held"]}


async def tell_token(state: Log, config: RunnableConfig) -> Log:
    return {"log": [config["configurable"]["x-upstream-token"]]}


async def question(state: Log) -> Log:
    return {"log": [interrupt({"question": "go on?"})]}


builder = StateGraph(Log).add_node("first", first).add_node("hold", hold)
held = builder.add_edge(START, "first").add_edge("first", "hold").add_edge("hold", END).compile()
ask = StateGraph(Log).add_node("question", question).add_edge(START, "question").add_edge("question", END).compile()
asking = StateGraph(Log).add_node("question", question).add_node("hold", hold)
ask_held = asking.add_edge(START, "question").add_edge("question", "hold").add_edge("hold", END).compile()
called = StateGraph(Log).add_node("hold", hold).add_node("tell_token", tell_token)
token = called.add_edge(START, "hold").add_edge("hold", "tell_token").add_edge("tell_token", END).compile()
