"""Graphs whose runs call models and tools; their texts are secret."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tracers.base import BaseTracer
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from loguru import logger
from opentelemetry import trace

from tests.fixtures.scripted_model import ScriptedModel
from toolweave.graphs import build_agent_loop
from toolweave.graphs.plane_tools import CurrentPlaneTools

SECRET = "my-secret"
USAGE = UsageMetadata(input_tokens=7, output_tokens=2, total_tokens=9)


def calling(tool: str) -> AIMessage:
    return AIMessage(SECRET, tool_calls=[{"name": tool, "args": {"text": SECRET}, "id": tool}])


def answer(_prompt: Any) -> AIMessage:
    return AIMessage(SECRET, usage_metadata=USAGE)


def next_turn(prompt: list[BaseMessage]) -> AIMessage:
    done = sum(isinstance(message, ToolMessage) for message in prompt)
    return AIMessage(SECRET) if done == 2 else calling(("meta", "fail")[done])


agent = build_agent_loop(tools=CurrentPlaneTools(), model=ScriptedModel(turns=[next_turn]))


class CountingModel(ScriptedModel):
    """Reports its tokens, also when it streams."""

    async def _astream(self, *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        for text, usage in ((SECRET, None), ("", USAGE)):
            yield ChatGenerationChunk(message=AIMessageChunk(content=text, usage_metadata=usage))


model = CountingModel(turns=[answer])


class HangingModel(ScriptedModel):
    """Reports that it was called, and never answers."""

    async def _agenerate(self, *_: Any, **__: Any) -> ChatResult:
        get_stream_writer()("called")
        await asyncio.Event().wait()
        raise AssertionError


hanging = HangingModel(turns=[SECRET])


async def ask(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await model.ainvoke(state["messages"])]}


def ask_in_thread(state: MessagesState) -> dict[str, Any]:
    return {"messages": [model.invoke(state["messages"])]}


async def stream(state: MessagesState) -> dict[str, Any]:
    return {"messages": [chunk async for chunk in model.astream(state["messages"])][:1]}


inner = StateGraph(MessagesState).add_node("ask", ask).add_edge(START, "ask").compile()
nested = (
    StateGraph(MessagesState)
    .add_node("inner", inner)
    .add_node("ask_in_thread", ask_in_thread)
    .add_node("stream", stream)
    .add_edge(START, "inner")
    .add_edge("inner", "ask_in_thread")
    .add_edge("ask_in_thread", "stream")
    .compile()
)


async def raising(state: MessagesState) -> dict[str, Any]:
    with trace.get_tracer("application").start_as_current_span("lookup", attributes={"key": SECRET}):
        await model.ainvoke(SECRET)
    raise LookupError(SECRET)


async def hang(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await hanging.ainvoke(state["messages"])]}


async def close_stream(state: MessagesState) -> dict[str, Any]:
    async for chunk in model.astream(state["messages"]):
        return {"messages": [chunk]}
    raise AssertionError


def count_traced_calls(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
    """Answer with the number of calls that LangChain's tracers in this process hold."""
    gc.collect()
    handlers = getattr(config["callbacks"], "handlers", ())
    # Objects of the server's start are not among the collector's.
    tracers = {id(each): each for each in (*handlers, *gc.get_objects()) if isinstance(each, BaseTracer)}
    return {"messages": [AIMessage(str(sum(len(tracer.run_map) for tracer in tracers.values())))]}


async def logging_node(state: MessagesState) -> dict[str, Any]:
    logging.getLogger("application").warning("a line of a library")
    return {}


def logging_in_thread(state: MessagesState) -> dict[str, Any]:
    logger.warning("a line of a thread")
    return {}


fail = StateGraph(MessagesState).add_node("raising", raising).add_edge(START, "raising").compile()
cancelled = StateGraph(MessagesState).add_node("hang", hang).add_edge(START, "hang").compile()
closed = StateGraph(MessagesState).add_node("close_stream", close_stream).add_edge(START, "close_stream").compile()
count = StateGraph(MessagesState).add_node("count", count_traced_calls).add_edge(START, "count").compile()
log = (
    StateGraph(MessagesState)
    .add_node("logging_node", logging_node)
    .add_node("logging_in_thread", logging_in_thread)
    .add_edge(START, "logging_node")
    .add_edge("logging_node", "logging_in_thread")
    .compile()
)
