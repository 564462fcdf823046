"""The graphs that scripts/bench_stalls.py serves: one stores what it gets, one is an agent that writes, one sleeps."""

import time
from typing import Any, TypedDict

from langchain_core.tools import tool
from langgraph.graph import START, StateGraph

from toolweave.config.settings import load_settings
from toolweave.graphs import build_agent_loop
from toolweave.nodes.chat_models import build_chat_model


class Kept(TypedDict, total=False):
    data: Any


async def pass_on(_state: Kept) -> Kept:
    return {}


async def sleep(_state: Kept) -> Kept:
    time.sleep(1)  # noqa: ASYNC251 - what the watchdog is for
    return {}


@tool
def write_file(text: str) -> str:
    """Write a file."""
    return f"{len(text)} characters"


keep = StateGraph(Kept).add_node("pass_on", pass_on).add_edge(START, "pass_on").compile()
sleepy = StateGraph(Kept).add_node("sleep", sleep).add_edge(START, "sleep").compile()
writer = build_agent_loop(tools=[write_file], model=lambda: build_chat_model(load_settings()))
