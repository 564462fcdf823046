"""A graph of your own: it drafts an announcement, waits for a person's approval, and publishes it."""

from typing import NotRequired

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from typing_extensions import TypedDict


class Announcement(TypedDict):
    topic: str
    draft: NotRequired[str]
    published: NotRequired[bool]


def write_draft(state: Announcement) -> dict[str, str]:
    return {"draft": f"Today: {state['topic']}."}


def approve(state: Announcement) -> dict[str, bool]:
    """Interrupt the run; the answer that resumes it is the value of `interrupt`."""
    return {"published": interrupt({"question": "Publish this?", "draft": state["draft"]}) == "yes"}


builder = StateGraph(Announcement)
builder.add_node("write_draft", write_draft)
builder.add_node("approve", approve)
builder.add_edge(START, "write_draft")
builder.add_edge("write_draft", "approve")
builder.add_edge("approve", END)
graph = builder.compile()
