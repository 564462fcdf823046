"""Graphs that use the long-term store: in async nodes, in synchronous ones, and many times at once."""

import asyncio
from typing import Any

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict


class Memory(TypedDict, total=False):
    key: str
    text: str
    found: Any


async def note(state: Memory, runtime: Runtime) -> Memory:
    assert runtime.store is not None
    await runtime.store.aput(("graph", "notes"), state["key"], {"text": state["text"]})
    item = await runtime.store.aget(("api", "notes"), state["key"])
    return {"found": None if item is None else item.value}


def note_in_thread(state: Memory, runtime: Runtime) -> Memory:
    assert runtime.store is not None
    runtime.store.put(("graph", "notes"), state["key"], {"text": state["text"]})
    found = runtime.store.search(("graph",), query=state["text"], limit=1)
    return {"found": found[0].key}


async def flood_store(state: Memory, runtime: Runtime) -> Memory:
    store = runtime.store
    assert store is not None
    await asyncio.gather(
        *(store.aput(("flood", state["key"]), str(number), {"n": number}, index=False) for number in range(50))
    )
    return {"found": len(await store.asearch(("flood", state["key"]), limit=100))}


remember = StateGraph(Memory).add_node("note", note).add_edge(START, "note").compile()
remember_in_thread = StateGraph(Memory).add_node("note", note_in_thread).add_edge(START, "note").compile()
flood = StateGraph(Memory).add_node("flood", flood_store).add_edge(START, "flood").compile()
