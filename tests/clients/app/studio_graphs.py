"""Graphs for the studio's tests: subgraphs in subgraphs, a loop with a labelled edge, model and tool calls."""

from typing import Any, Literal

from client_graphs import approve, broken, count, talk  # type: ignore[import-not-found]
from client_model import WordByWord  # type: ignore[import-not-found]
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from tests.fixtures.gated_app import Graph, chain

__all__ = ["approve", "broken", "count", "nested", "talk", "words"]


@tool
async def look_up(topic: str) -> str:
    """Look a topic up."""
    if topic == "nothing":
        raise ValueError("there is nothing about nothing")
    return f"All about {topic}."


async def plan(state: MessagesState) -> dict[str, Any]:
    """Ask for one look-up of the user's last word."""
    topic = state["messages"][-1].text.split()[-1]
    call = {"name": "look_up", "args": {"topic": topic}, "id": f"call-{len(state['messages'])}"}
    return {"messages": [AIMessage("", tool_calls=[call])]}


async def write(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
    question = next(each for each in reversed(state["messages"]) if isinstance(each, HumanMessage))
    return {"messages": [await WordByWord(prefix="draft:").ainvoke([question], config)]}


async def check(state: MessagesState) -> dict[str, Any]:
    return {"messages": []}


async def repeat(words: list[str]) -> list[str]:
    return [*words, words[-1]]


def decide(state: MessagesState) -> Literal["again", "good"]:
    drafts = [each for each in state["messages"] if each.text.startswith("draft:")]
    return "again" if len(drafts) < 2 and "twice" in drafts[-1].text else "good"


def nesting() -> Graph:
    """Look something up in a subgraph, write in a subgraph of a subgraph, and write again until it is good."""
    research = chain(MessagesState, ("plan", plan), ("tools", ToolNode([look_up], handle_tool_errors=True)))
    drafting = chain(MessagesState, ("write", write), ("polish", check))
    author = chain(MessagesState, ("drafting", drafting), ("proofread", check))
    builder = StateGraph(MessagesState)
    nodes: dict[str, Any] = {"research": research, "author": author, "check": check, "publish": check}
    for name, node in nodes.items():
        builder.add_node(name, node)
    builder.add_edge(START, "research")
    builder.add_edge("research", "author")
    builder.add_edge("author", "check")
    builder.add_conditional_edges("check", decide, {"again": "author", "good": "publish"})
    builder.add_edge("publish", END)
    return builder.compile()


nested = nesting()
words = chain(list, ("repeat", repeat))
