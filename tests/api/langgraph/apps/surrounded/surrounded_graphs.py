"""A graph that does nothing, and one that does it for ever."""

import asyncio

from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict


class Nothing(TypedDict, total=False):
    text: str


nothing = StateGraph(Nothing).add_node("rest", lambda _state: {"text": "nothing"}).add_edge(START, "rest").compile()


async def wait(state: Nothing) -> Nothing:
    await asyncio.Event().wait()
    return {}


waiting = StateGraph(Nothing).add_node("wait", wait).add_edge(START, "wait").compile()
