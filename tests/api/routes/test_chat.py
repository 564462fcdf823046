"""Chat over server-sent events, against the served application with its real todo server (T-02)."""

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.api.routes.conftest import chat, events_of, named, serve_ours, wait_for_health
from tests.fixtures.app_server import AppProcess


def threads(process: AppProcess) -> int:
    count: int = httpx.post(f"{process.url}/threads/count", json={}, timeout=60).json()
    return count


@pytest.mark.requirement("T-02")
def test_a_request_becomes_a_tool_call_a_result_and_a_confirmation(ours: AppProcess) -> None:
    events = chat(ours, message="Add a task to buy milk")
    names = [name for name, _ in events]
    assert names[0] == "metadata"
    assert names[-1] == "message"
    assert names.index("tool_call") < names.index("tool_result") < names.index("token")
    (call,) = named(events, "tool_call")
    assert (call["name"], call["args"]) == ("create_todo", {"title": "Buy milk"})
    (result,) = named(events, "tool_result")
    assert (result["id"], result["status"]) == (call["id"], "success")
    assert json.loads(result["content"])["data"]["title"] == "Buy milk"
    assert "Buy milk" in events[-1][1]["content"]
    assert "".join(token["text"] for token in named(events, "token")) == events[-1][1]["content"]


@pytest.mark.requirement("T-02")
@pytest.mark.parametrize(
    ("message", "tool", "arguments"),
    [
        ("What are my active tasks?", "list_todos", {"status": "active"}),
        ("Create a high-priority task for the dentist appointment", "create_todo", {"priority": "high"}),
    ],
)
def test_the_specifications_requests_call_the_right_tool(
    ours: AppProcess, message: str, tool: str, arguments: dict[str, Any]
) -> None:
    (call,) = named(chat(ours, message=message), "tool_call")
    assert call["name"] == tool
    assert call["args"].items() >= arguments.items()


def test_a_chat_goes_on_in_its_thread(ours: AppProcess) -> None:
    thread_id = str(uuid4())
    first = chat(ours, message="Add a task to water the ficus", thread_id=thread_id)
    assert first[0][1]["thread_id"] == thread_id
    second = chat(ours, message="Mark the ficus task as done", thread_id=thread_id)
    assert named(second, "tool_call")[-1]["name"] == "update_todo"
    state = httpx.get(f"{ours.url}/threads/{thread_id}/state", timeout=60).json()
    assert [message["content"] for message in state["values"]["messages"] if message["type"] == "human"] == [
        "Add a task to water the ficus",
        "Mark the ficus task as done",
    ]


@pytest.mark.requirement("D-7", "T-14")
def test_a_chat_without_a_thread_gets_a_generated_one_and_leaves_nothing_behind(ours: AppProcess) -> None:
    before = threads(ours)
    (metadata,) = named(chat(ours, message="What are my tasks?"), "metadata")
    assert httpx.get(f"{ours.url}/threads/{metadata['thread_id']}", timeout=60).status_code == 404
    assert threads(ours) == before


@pytest.mark.requirement("T-11")
async def test_many_users_chat_at_once_and_each_gets_its_own_response(ours: AppProcess) -> None:
    async def chat_once(http: httpx.AsyncClient, number: int) -> str:
        response = await http.post(
            "/chat/stream", json={"message": f'Add a task "errand {number}"', "user_id": str(number)}
        )
        return str(events_of(response.text)[-1][1]["content"])

    async with httpx.AsyncClient(base_url=ours.url, timeout=60) as http:
        answers = await asyncio.gather(*[chat_once(http, number) for number in range(20)])
    assert [f"rrand {number}”" in answer for number, answer in enumerate(answers)] == [True] * 20


@pytest.mark.requirement("D-3")
def test_thread_run_and_user_reach_the_mcp_server_and_the_run_names_its_model(ours: AppProcess) -> None:
    thread_id, user_id = str(uuid4()), f"user-{uuid4()}"
    events = chat(ours, message="What are my tasks?", thread_id=thread_id, user_id=user_id)
    ours.wait_for_log(user_id)
    line = next(line for line in ours.logs().splitlines() if user_id in line)
    run_id = events[0][1]["run_id"]
    assert thread_id in line
    assert run_id in line
    run = httpx.get(f"{ours.url}/threads/{thread_id}/runs/{run_id}", timeout=60).json()
    assert run["metadata"]["model"] == "offline"


@pytest.mark.parametrize(
    "body",
    [
        b'{"message": ""}',
        b'{"message": 1}',
        b'{"message": "a", "resume": 1}',
        b'{"message": "a", "thread_id": "nope"}',
        b'{"message": "a", "unknown": 1}',
        b'{"message": "a", "user_id": ""}',
        b'{"resume": {"a": 1}}',
        b'{"message": "' + b"a" * 100_001 + b'"}',
        b'{"message": "hi", "user_id": "\\udfff"}',
        b'{"thread_id": "00000000-0000-4000-8000-000000000000", "resume": ' + b"[" * 300 + b"]" * 300 + b"}",
        b'{"thread_id": "00000000-0000-4000-8000-000000000000", "resume": "\\ud800"}',
    ],
)
def test_a_bad_body_is_422_and_names_what_is_wrong(ours: AppProcess, body: bytes) -> None:
    answer = httpx.post(
        f"{ours.url}/chat/stream", content=body, headers={"content-type": "application/json"}, timeout=60
    )
    assert answer.status_code == 422
    assert answer.json()["detail"]


@pytest.mark.parametrize(
    "message", ["\ud800".encode("utf-16", "surrogatepass").decode("utf-16", "replace"), "\x00", "💥" * 5000]
)
def test_odd_text_is_answered(ours: AppProcess, message: str) -> None:
    assert chat(ours, message=message)[-1][0] == "message"


@pytest.mark.requirement("D-3")
def test_an_unreachable_model_endpoint_is_a_plain_error_and_the_offline_model_does_not_answer(tmp_path: Path) -> None:
    env = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "TOOLWEAVE_MODEL": "some-model"}
    with serve_ours(tmp_path, env) as process:
        assert wait_for_health(process, "ok")["model"] == "some-model"
        events = chat(process, message="Add a task to buy milk")
    assert events[-1][0] == "error"
    assert "model endpoint could not be reached" in events[-1][1]["message"]
    assert named(events, "tool_call") == []
