"""Graphs that ask for more than a run may have: to end the process, not to be ended with it, to block all others."""

import sys
import threading
from typing import Any

from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from loguru import logger
from typing_extensions import TypedDict

LONGER_THAN_ANY_TEST_S = 120
LONGER_THAN_ANY_START_S = 30


class Nothing(TypedDict, total=False):
    nothing: Any


async def leave(state: Nothing) -> Nothing:
    sys.exit(3)


def stay(state: Nothing) -> Nothing:
    get_stream_writer()("here")
    threading.Event().wait(LONGER_THAN_ANY_TEST_S)
    return {}


async def block(state: Nothing) -> Nothing:
    """Block the event loop until somebody logs it."""
    warned = threading.Event()
    sink = logger.add(lambda _: warned.set(), filter=lambda record: "event loop" in record["message"], level="WARNING")
    try:
        return {"nothing": warned.wait(LONGER_THAN_ANY_START_S)}
    finally:
        logger.remove(sink)


leaving = StateGraph(Nothing).add_node("leave", leave).add_edge(START, "leave").compile()
blocking = StateGraph(Nothing).add_node("block", block).add_edge(START, "block").compile()
staying = StateGraph(Nothing).add_node("stay", stay).add_edge(START, "stay").compile()
