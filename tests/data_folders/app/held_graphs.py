"""A graph that is killed in its second node, and one that waits for a person."""

import asyncio
import operator
import os
from typing import Annotated

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


async def question(state: Log) -> Log:
    return {"log": [interrupt({"question": "go on?"})]}


builder = StateGraph(Log).add_node("first", first).add_node("hold", hold)
held = builder.add_edge(START, "first").add_edge("first", "hold").add_edge("hold", END).compile()
ask = StateGraph(Log).add_node("question", question).add_edge(START, "question").add_edge("question", END).compile()
