"""Graphs whose reducers, edges and state classes refuse malformed values."""

import asyncio
import operator
from typing import Annotated, Any

from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict

MALFORMED = [{"role": "zzz", "content": 5}]


class Log(TypedDict, total=False):
    n: int
    log: Annotated[list[Any], operator.add]


class Number(BaseModel):
    n: int = 0


class OddError(Exception):
    """An error of a class that nobody else knows."""


def last_text(state: MessagesState) -> str:
    return str(state["messages"][-1].content)


async def answer(state: MessagesState) -> dict[str, Any]:
    return {"messages": MALFORMED if "malformed" in last_text(state) else [("ai", f"hello {last_text(state)}")]}


async def beside(state: MessagesState) -> dict[str, Any]:
    if last_text(state) == "malformed, and never done":
        await asyncio.Event().wait()
    return {"messages": [("ai", "beside")]}


async def question(state: MessagesState) -> dict[str, Any]:
    return {"messages": [("human", str(interrupt("what?")))]}


async def note(state: Log) -> Log:
    return {"log": ["noted"]}


async def pay(state: Log) -> Log:
    return {"log": interrupt("pay?")}


async def count(state: Number) -> dict[str, Any]:
    return {"n": state.n + 1}


async def set_number(state: Log) -> Log:
    return {"n": state.get("n", 0)}


async def set_number_too(state: Log) -> Log:
    return {"n": 7} if state.get("n") == 1 else {}


def by_message(state: MessagesState) -> str:
    # As agents do: nothing guards against a list without messages.
    return "answer" if last_text(state) == "again" else END


def by_number(state: Log) -> str:
    if state.get("n") == 13:
        raise OddError("thirteen is refused")
    return END


def _talk() -> Any:
    return (
        StateGraph(MessagesState)
        .add_node("answer", answer)
        .add_node("beside", beside)
        .add_edge(START, "answer")
        .add_edge(START, "beside")
    )


talk = _talk().compile()
log = StateGraph(Log).add_node("note", note).add_edge(START, "note").compile()
typed = StateGraph(Number).add_node("count", count).add_edge(START, "count").compile()
clash = (
    StateGraph(Log)
    .add_node("set_number", set_number)
    .add_node("set_number_too", set_number_too)
    .add_edge(START, "set_number")
    .add_edge(START, "set_number_too")
    .compile()
)
ask = (
    StateGraph(MessagesState)
    .add_node("question", question)
    .add_node("answer", answer)
    .add_edge(START, "question")
    .add_edge("question", "answer")
    .compile()
)
shop = (
    StateGraph(Log).add_node("book", pay).add_node("pay", pay).add_edge(START, "book").add_edge(START, "pay").compile()
)
outer = StateGraph(MessagesState).add_node("inner", talk).add_edge(START, "inner").compile()
edges = (
    StateGraph(Log).add_node("note", note).add_edge(START, "note").add_conditional_edges("note", by_number).compile()
)
agent = (
    StateGraph(MessagesState)
    .add_node("answer", answer)
    .add_edge(START, "answer")
    .add_conditional_edges("answer", by_message)
    .compile()
)
