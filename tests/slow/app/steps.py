"""A graph of several short steps, so that a kill has something to fall between."""

import asyncio
import operator
from typing import Annotated, Literal

from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict


class Steps(TypedDict, total=False):
    pauses: int
    log: Annotated[list[str], operator.add]


async def begin(state: Steps) -> Steps:
    return {"log": ["begin"]}


async def pause(state: Steps) -> Steps:
    await asyncio.sleep(0.03)
    return {"log": ["pause"]}


async def end(state: Steps) -> Steps:
    return {"log": ["end"]}


def after_pause(state: Steps) -> Literal["pause", "end"]:
    return "pause" if state["log"].count("pause") < state["pauses"] else "end"


_graph = StateGraph(Steps).add_node("begin", begin).add_node("pause", pause).add_node("end", end)
_graph.add_edge(START, "begin").add_edge("begin", "pause").add_conditional_edges("pause", after_pause).add_edge(
    "end", END
)
steps = _graph.compile()
