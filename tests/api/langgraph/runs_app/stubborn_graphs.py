"""Graphs that ask for more than a run may have: to end the process, or not to be ended with it."""

import sys
import threading
from typing import Any

from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

LONGER_THAN_ANY_TEST_S = 120


class Nothing(TypedDict, total=False):
    nothing: Any


async def leave(state: Nothing) -> Nothing:
    sys.exit(3)


def stay(state: Nothing) -> Nothing:
    get_stream_writer()("here")
    threading.Event().wait(LONGER_THAN_ANY_TEST_S)
    return {}


leaving = StateGraph(Nothing).add_node("leave", leave).add_edge(START, "leave").compile()
staying = StateGraph(Nothing).add_node("stay", stay).add_edge(START, "stay").compile()
