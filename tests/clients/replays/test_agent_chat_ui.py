"""What Agent Chat UI sends, request by request, from a page on localhost:3000 (langgraph_api.md 9.5)."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.clients.replays.browser import Answer, Page

pytestmark = pytest.mark.requirement("S-01")

LANGGRAPH_JSON = Path(__file__).parent.parent / "app" / "langgraph.json"
STREAMING = {
    "stream_mode": ["values", "messages-tuple", "custom"],
    "stream_subgraphs": True,
    "stream_resumable": True,
    "on_disconnect": "continue",
}


@pytest.fixture
def page(http: httpx.AsyncClient) -> Page:
    return Page(http, "http://localhost:3000")


def human(text: str) -> dict[str, Any]:
    """Make the input of the chat's text field: content blocks, under an id that the page gives out."""
    content = [{"type": "text", "text": text}]
    return {"messages": [{"id": str(uuid4()), "type": "human", "content": content}]}


async def stream(page: Page, thread_id: str, assistant: str, **fields: Any) -> Answer:
    body = {**fields, **STREAMING, "assistant_id": assistant}
    answer = await page.json("POST", f"/threads/{thread_id}/runs/stream", body)
    assert answer.status == 200
    # The page reads the run's id here, and where to connect again.
    run_id = answer.events[0][1]["run_id"]
    assert answer.headers["content-location"] == f"/threads/{thread_id}/runs/{run_id}"
    assert answer.headers["location"] == f"/threads/{thread_id}/runs/{run_id}/stream"
    # No event shows that the run has ended, so the page requests the run.
    assert (await page.json("GET", answer.headers["content-location"])).body["status"] not in ("pending", "running")
    return answer


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
async def test_a_conversation_is_streamed_joined_again_and_listed(page: Page, named_by: str) -> None:
    found = await page.json("POST", "/assistants/search", {"graph_id": "talk", "metadata": {"created_by": "system"}})
    assistant = "talk" if named_by == "graph_id" else found.body[0]["assistant_id"]
    thread_id = await new_thread(page)
    answer = await stream(page, thread_id, assistant, input=human("hello"))
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
    # A reloaded page joins the run again from its first event.
    joined = await page.json("GET", f"{answer.headers['location']}?cancel_on_disconnect=0", last_event_id="-1")
    assert joined.events == answer.events
    body = {"metadata": {named_by: assistant}, "limit": 100, "offset": 0}
    (listed, *_) = (await page.json("POST", "/threads/search", body)).body
    assert listed["thread_id"] == thread_id
    assert listed["values"]["messages"][0]["content"] == [{"type": "text", "text": "hello"}]


@pytest.mark.parametrize("decision", [[{"type": "accept", "args": None}], {"decisions": [{"type": "approve"}]}])
async def test_a_tool_call_is_approved(page: Page, decision: Any) -> None:
    thread_id = await new_thread(page)
    answer = await stream(page, thread_id, "approve", input=human("hello"))
    (interrupt,) = [data["__interrupt__"] for _, data, _ in answer.events if "__interrupt__" in data]
    assert interrupt[0]["value"]["question"] == "Send it?"
    (head, *_) = await history(page, thread_id)
    assert head["next"] == ["review"]
    assert head["tasks"][0]["interrupts"][0]["id"] == interrupt[0]["id"]
    # The page sends an empty input along with the command: the command counts.
    await stream(page, thread_id, "approve", input={}, command={"resume": decision})
    (head, *_) = await history(page, thread_id)
    assert (head["next"], head["values"]["messages"][2]["content"]) == ([], f"decided: {decision}")


async def test_a_question_is_marked_as_resolved(page: Page) -> None:
    thread_id = await new_thread(page)
    await stream(page, thread_id, "approve", input=human("hello"))
    answer = await stream(page, thread_id, "approve", input={}, command={"goto": "__end__"})
    assert [data for name, data, _ in answer.events if name == "error"] == []


async def test_a_tool_call_without_an_answer_gets_one_before_the_next_message(page: Page) -> None:
    thread_id = await new_thread(page)
    await stream(page, thread_id, "approve", input=human("hello"))
    filler = {
        "type": "tool",
        "tool_call_id": "call-1",
        "id": f"do-not-render-{uuid4()}",
        "name": "send",
        "content": "Successfully handled tool call.",
    }
    messages = [filler, *human("instead")["messages"]]
    await stream(page, thread_id, "approve", input={"messages": messages})
    (head, *_) = await history(page, thread_id)
    kinds = [message["type"] for message in head["values"]["messages"]]
    assert kinds == ["human", "ai", "tool", "human", "ai"]
    assert head["tasks"][0]["interrupts"][0]["value"]["args"] == {"text": "instead"}
