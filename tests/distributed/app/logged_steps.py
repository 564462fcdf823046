"""Graphs of several steps that append each executed step to the file STEP_LOG: repetitions and overlaps are seen."""

import asyncio
import json
import operator
import os
import threading
import time
from contextlib import suppress
from typing import Annotated, Any, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from langgraph_sdk import Priority, PriorityContext
from typing_extensions import TypedDict

priority = Priority()


@priority.assign
async def assign(ctx: PriorityContext) -> Any:
    return ctx.run_metadata.get("settings")


class Steps(TypedDict, total=False):
    """`name` marks the run in the log of its thread; each of its `steps` takes `pause` seconds."""

    name: str
    steps: int
    pause: float
    log: Annotated[list[str], operator.add]


def note(config: RunnableConfig, step: str, kind: str) -> None:
    """Append one line, which several processes may do at once."""
    metadata = config.get("metadata", {})
    entry = {
        "run_id": metadata["run_id"],
        "thread_id": metadata["thread_id"],
        "attempt": metadata.get("run_attempt", 0),
        "step": step,
        "kind": kind,
        "pid": os.getpid(),
        "at": time.time(),
    }
    file = os.open(os.environ["STEP_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, json.dumps(entry).encode() + b"\n")
    finally:
        os.close(file)


def next_step(state: Steps) -> str:
    done = sum(each.startswith(f"{state['name']}/") for each in state.get("log", []))
    return f"{state['name']}/{done}"


async def work(state: Steps, config: RunnableConfig) -> Steps:
    step = next_step(state)
    note(config, step, "begin")
    try:
        await asyncio.sleep(state.get("pause", 0.03))
    except asyncio.CancelledError:
        note(config, step, "cancelled")
        raise
    note(config, step, "end")
    return {"log": [step]}


async def tick(state: Steps, config: RunnableConfig) -> Steps:
    step = next_step(state)
    note(config, step, "begin")
    write = get_stream_writer()
    for number in range(10):
        write({"tick": f"{step}/{number}"})
        await asyncio.sleep(state.get("pause", 0.03) / 10)
    return {"log": [step]}


def is_first(config: RunnableConfig) -> bool:
    note(config, "wait", "begin")
    return bool(config["metadata"]["run_attempt"] == 1)


async def ignore_cancellation(_state: Steps, config: RunnableConfig) -> Steps:
    while is_first(config):
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
    return {"log": ["done"]}


def wait_in_thread(_state: Steps, config: RunnableConfig) -> Steps:
    if is_first(config):
        threading.Event().wait()
    return {"log": ["done"]}


async def block_loop(state: Steps, config: RunnableConfig) -> Steps:
    return wait_in_thread(state, config)


def after(state: Steps) -> Literal["work", "__end__"]:
    done = int(next_step(state).rpartition("/")[2])
    return "work" if done < state.get("steps", 3) else "__end__"


def looping(node: Any) -> Any:
    """Compile a graph whose only node is executed `steps` times."""
    return (
        StateGraph(Steps).add_node("work", node).add_edge(START, "work").add_conditional_edges("work", after).compile()
    )


steps = looping(work)
ticks = looping(tick)


def single(node: Any) -> Any:
    """Compile a graph of one node, which ends at its second attempt only."""
    return StateGraph(Steps).add_node("wait", node).add_edge(START, "wait").compile()


stubborn = single(ignore_cancellation)
stuck = single(wait_in_thread)
blocking = single(block_loop)
