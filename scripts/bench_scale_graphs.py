"""The graphs that scripts/bench_scale.py serves; their nodes report moments to its UDP socket."""

import asyncio
import os
import socket
import time
from typing import TypedDict

from bench_graphs import agent
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph

LEAD_S = 1.0
PORT = int(os.environ["BENCH_REPORTS"])  # noqa: TID251 - of the bench that starts the processes
_REPORTS = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


class Order(TypedDict, total=False):
    """What a node does: its key in reports, how long it works, or its tokens and their number per second."""

    key: str
    seconds: float
    tokens: int
    rate: int


def report(key: str, moment: str) -> None:
    """Send a moment with the clock that all processes of the machine share."""
    line = f"{key} {moment} {time.time()}".encode()
    _REPORTS.sendto(line, ("127.0.0.1", PORT))


async def work(order: Order) -> Order:
    report(order["key"], "started")
    try:
        await asyncio.sleep(order["seconds"])
    finally:
        report(order["key"], "ended")
    return {}


async def speak(order: Order) -> Order:
    write = get_stream_writer()
    # All streams are open before the first token.
    begun = time.monotonic() + LEAD_S
    for number in range(order["tokens"]):
        await asyncio.sleep(max(0.0, begun + number / order["rate"] - time.monotonic()))
        write({"n": number, "at": time.time(), "text": "x" * 100})
    return {}


__all__ = ["agent", "stream_graph", "work_graph"]
work_graph = StateGraph(Order).add_node("work", work).add_edge(START, "work").compile()
stream_graph = StateGraph(Order).add_node("speak", speak).add_edge(START, "speak").compile()
