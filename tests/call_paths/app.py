"""A graph for one run."""

from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict


class Count(TypedDict):
    n: int


async def add_one(state: Count) -> Count:
    return {"n": state["n"] + 1}


graph = StateGraph(Count).add_node("add_one", add_one).add_edge(START, "add_one").compile()
