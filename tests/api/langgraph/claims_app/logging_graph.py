"""A graph that only logs, and gives other requests their turn in each of its nodes."""

import asyncio
import operator
from typing import Annotated

from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

TURNS = 25


class Log(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


async def wait_some_turns(state: Log) -> Log:
    for _ in range(TURNS):
        await asyncio.sleep(0)
    return {"log": []}


builder = StateGraph(Log).add_node("one", wait_some_turns).add_node("two", wait_some_turns)
graph = builder.add_edge(START, "one").add_edge("one", "two").add_edge("two", END).compile()
