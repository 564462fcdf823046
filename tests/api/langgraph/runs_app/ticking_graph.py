"""A graph with a different number in each of its events."""

import asyncio

from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict


class Ticks(TypedDict, total=False):
    steps: int
    per_step: int
    pause: float
    done: int


async def step(state: Ticks) -> Ticks:
    done, per_step = state.get("done", 0), state["per_step"]
    write = get_stream_writer()
    for number in range(done, done + per_step):
        write({"tick": number})
        await asyncio.sleep(state.get("pause", 0))
    return {"done": done + per_step}


def more(state: Ticks) -> str:
    return "step" if state["done"] < state["steps"] * state["per_step"] else END


ticking = (
    StateGraph(Ticks)
    .add_node("step", step)
    .add_edge(START, "step")
    .add_conditional_edges("step", more, ["step", END])
    .compile()
)
