"""Call a graph of a Toolweave server from another program, as a node of that program's own graph."""

import sys

from langchain_core.messages import AnyMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel.remote import RemoteGraph


def summarize(state: MessagesState) -> dict[str, list[tuple[str, str]]]:
    calls = sum(len(getattr(message, "tool_calls", ())) for message in state["messages"])
    return {"messages": [("ai", f"The remote agent used {calls} tool call(s).")]}


def build_graph(url: str) -> CompiledStateGraph[MessagesState]:
    """Return a graph whose first node runs on the server at `url`."""
    builder = StateGraph(MessagesState)
    builder.add_node("todo_agent", RemoteGraph("todo_agent", url=url))
    builder.add_node("summarize", summarize)
    builder.add_edge(START, "todo_agent")
    builder.add_edge("todo_agent", "summarize")
    builder.add_edge("summarize", END)
    return builder.compile()


if __name__ == "__main__":
    graph = build_graph(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:2024")
    messages: list[AnyMessage] = graph.invoke({"messages": [("user", "Add a task to buy milk")]})["messages"]
    for message in messages:
        if message.text:
            print(f"{message.type}: {message.text}")
