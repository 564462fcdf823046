"""Graphs that show what a run was given: one says its config, the others leave a trace of every node."""

import operator
from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from typing_extensions import TypedDict


class Trace(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    given: Any
    seen: Any


async def show(state: Trace, config: RunnableConfig) -> Trace:
    metadata, configurable = config["metadata"], config["configurable"]
    seen = {
        "tags": config["tags"],
        "recursion_limit": config["recursion_limit"],
        "max_concurrency": config.get("max_concurrency"),
        "metadata": {name: metadata.get(name) for name in ("who", "why", "graph_id")},
        "configurable": configurable.get("style"),
        "given": state.get("given"),
    }
    return {"seen": seen}


def letter(name: str) -> Callable[[Trace], Trace]:
    def write(state: Trace) -> Trace:
        return {"log": [name]}

    return write


def ask(state: Trace) -> Trace:
    return {"log": [interrupt("first?"), interrupt("second?")]}


def fail(state: Trace) -> Trace:
    raise ValueError("kaboom")


def chain(*nodes: tuple[str, Any]) -> Any:
    graph: Any = StateGraph(Trace)
    for name, node in nodes:
        graph.add_node(name, node)
    for before, after in pairwise([START, *(name for name, _ in nodes), END]):
        graph.add_edge(before, after)
    return graph.compile()


shown = chain(("show", show))
letters = chain(*((name, letter(name)) for name in "abc"))
asking = chain(("a", letter("a")), ("ask", ask))
asking_at_once = chain(("ask", ask), ("a", letter("a")))
outer = chain(("a", letter("a")), ("inner", letters))
failing = chain(("a", letter("a")), ("fail", fail))
