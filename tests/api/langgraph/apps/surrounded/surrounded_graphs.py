"""A graph that does nothing."""

from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict


class Nothing(TypedDict, total=False):
    said: str


nothing = StateGraph(Nothing).add_node("rest", lambda _state: {"said": "nothing"}).add_edge(START, "rest").compile()
