"""What Agent Chat UI sends, request by request, from a page on localhost:3000 (langgraph_api.md 9.5).

`scripts/agent_chat_ui.py FOLDER --requests FILE` records these requests of the real page.
"""

from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from tests.clients.replays.browser import Answer, Page

pytestmark = pytest.mark.requirement("S-01")

APP = Path(__file__).parent.parent / "app"
LANGGRAPH_JSON = APP / "agent_chat_ui.json"
SERVER_ENV = {"TOOLWEAVE_MCP_CONFIG": str(APP / "no_servers.jsonc")}
# The options of a new message, and those of an answer to an interrupt.
MESSAGE = {
    "stream_mode": ["values", "messages-tuple", "custom"],
    "stream_subgraphs": True,
    "stream_resumable": True,
    "on_disconnect": "continue",
}
ANSWER = {
    "stream_mode": ["messages-tuple", "values", "custom"],
    "stream_resumable": False,
    "on_disconnect": "cancel",
    "input": {},
}
EDIT = {"type": "edit", "edited_action": {"name": "send", "args": {"text": "goodbye"}}}


@pytest.fixture
def page(http: httpx.AsyncClient) -> Page:
    return Page(http, "http://localhost:3000")


def human(text: str) -> dict[str, Any]:
    """Make the input of the chat's text field: content blocks, under an id that the page gives out."""
    content = [{"type": "text", "text": text}]
    return {"messages": [{"id": str(uuid4()), "type": "human", "content": content}]}


async def stream(page: Page, thread_id: str, assistant: str, **fields: Any) -> Answer:
    answer = await page.json("POST", f"/threads/{thread_id}/runs/stream", {"assistant_id": assistant, **fields})
    assert answer.status == 200
    # The page reads the run's id here.
    run_id = answer.events[0][1]["run_id"]
    assert answer.headers["content-location"] == f"/threads/{thread_id}/runs/{run_id}"
    assert [data for name, data, _ in answer.events if name == "error"] == []
    return answer


def checkpoint(state: dict[str, Any]) -> dict[str, Any]:
    """Return the checkpoint of a state as the page sends it: without its thread."""
    return {"checkpoint_id": state["checkpoint"]["checkpoint_id"], "checkpoint_ns": ""}


async def interrupted(page: Page) -> tuple[str, dict[str, Any]]:
    """Send a message whose answer is an interrupt; give the thread's id and its state."""
    thread_id = await new_thread(page)
    answer = await stream(page, thread_id, "approve", **MESSAGE, input=human("hello"))
    (interrupt,) = [data["__interrupt__"] for _, data, _ in answer.events if "__interrupt__" in data]
    assert interrupt[0]["value"]["action_requests"][0]["name"] == "send"
    (head, *_) = await history(page, thread_id)
    assert head["next"] == ["review"]
    assert head["tasks"][0]["interrupts"][0]["id"] == interrupt[0]["id"]
    return thread_id, head


async def history(page: Page, thread_id: str) -> list[dict[str, Any]]:
    answer = await page.json("POST", f"/threads/{thread_id}/history", {"limit": 10})
    states: list[dict[str, Any]] = answer.body
    return states


async def new_thread(page: Page) -> str:
    thread_id: str = (await page.json("POST", "/threads", {"metadata": {}})).body["thread_id"]
    return thread_id


async def test_the_page_finds_the_server_before_it_shows_anything(page: Page) -> None:
    assert (await page.json("GET", "/info", x_api_key="lsv2_pt_x")).status == 200
    assert (await page.json("GET", "/info")).status == 200


@pytest.mark.parametrize("named_by", ["graph_id", "assistant_id"])
async def test_a_conversation_is_streamed_and_listed(page: Page, sdk: LangGraphClient, named_by: str) -> None:
    (found,) = await sdk.assistants.search(graph_id="talk")
    assistant = "talk" if named_by == "graph_id" else found["assistant_id"]
    thread_id = await new_thread(page)
    answer = await stream(page, thread_id, assistant, **MESSAGE, input=human("hello"))
    names = [name for name, _, _ in answer.events]
    assert names[0] == "metadata"
    assert {"values", "messages", "custom"} <= set(names)
    assert all(event_id for _, _, event_id in answer.events)
    tokens = "".join(data[0]["content"] for name, data, _ in answer.events if name == "messages")
    assert tokens == "you said: hello"
    (head, *_) = await history(page, thread_id)
    assert [message["type"] for message in head["values"]["messages"]] == ["human", "ai"]
    streamed = {data[0]["id"] for name, data, _ in answer.events if name == "messages"}
    assert streamed == {head["values"]["messages"][-1]["id"]}
    body = {"metadata": {named_by: assistant}, "limit": 100, "offset": 0}
    (listed, *_) = (await page.json("POST", "/threads/search", body)).body
    assert listed["thread_id"] == thread_id
    assert listed["values"]["messages"][0]["content"] == [{"type": "text", "text": "hello"}]


async def test_an_edited_message_and_a_repeated_answer_are_branches(page: Page) -> None:
    thread_id = await new_thread(page)
    await stream(page, thread_id, "talk", **MESSAGE, input=human("one"))
    states = await history(page, thread_id)
    edited = {"messages": [{"type": "human", "content": "two"}]}
    await stream(page, thread_id, "talk", **MESSAGE, input=edited, checkpoint=checkpoint(states[-1]))
    (head, before, *_) = await history(page, thread_id)
    assert [message["content"] for message in head["values"]["messages"]] == ["two", "you said: two"]
    # The page sends no input to have an answer repeated.
    answer = await stream(page, thread_id, "talk", **MESSAGE, checkpoint=checkpoint(before))
    tokens = "".join(data[0]["content"] for name, data, _ in answer.events if name == "messages")
    assert tokens == "you said: two"
    (again, *_) = await history(page, thread_id)
    assert again["parent_checkpoint"]["checkpoint_id"] != head["parent_checkpoint"]["checkpoint_id"]
    assert [message["content"] for message in again["values"]["messages"]] == ["two", "you said: two"]


@pytest.mark.parametrize("decision", [{"type": "approve"}, EDIT, {"type": "reject", "message": "too short"}])
async def test_an_interrupt_is_answered(page: Page, decision: Any) -> None:
    thread_id, waiting = await interrupted(page)
    resume = {"decisions": [decision]}
    # The page sends an empty input along with the command: the command counts.
    await stream(page, thread_id, "approve", **ANSWER, command={"resume": resume}, checkpoint=checkpoint(waiting))
    (head, *_) = await history(page, thread_id)
    assert (head["next"], head["values"]["messages"][2]["content"]) == ([], f"decided: {resume}")


async def test_an_interrupt_is_marked_as_resolved(page: Page) -> None:
    thread_id, waiting = await interrupted(page)
    await stream(page, thread_id, "approve", **ANSWER, command={"goto": "__end__"}, checkpoint=checkpoint(waiting))


async def test_a_tool_call_without_an_answer_gets_one_before_the_next_message(page: Page) -> None:
    thread_id, waiting = await interrupted(page)
    filler = {
        "type": "tool",
        "tool_call_id": "call-1",
        "id": f"do-not-render-{uuid4()}",
        "name": "send",
        "content": "Successfully handled tool call.",
    }
    messages = {"messages": [filler, *human("instead")["messages"]]}
    await stream(page, thread_id, "approve", **MESSAGE, input=messages, checkpoint=checkpoint(waiting))
    (head, *_) = await history(page, thread_id)
    kinds = [message["type"] for message in head["values"]["messages"]]
    assert kinds == ["human", "ai", "tool", "human", "ai"]
    assert head["tasks"][0]["interrupts"][0]["value"]["action_requests"][0]["args"] == {"text": "instead"}
