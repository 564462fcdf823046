"""A person approves calls and answers questions over our server: /chat/stream, the SDK, after a crash (S-07)."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from tests.api.routes.conftest import chat, named, serve_ours, wait_for_health
from tests.api.routes.human import with_a_person
from tests.fixtures.app_server import AppProcess

MILK: Any = {"messages": [{"role": "user", "content": "Add a task to buy milk"}]}
GREET: Any = {"messages": [{"role": "user", "content": "Greet the user by name"}]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppProcess]:
    folder = tmp_path_factory.mktemp("human")
    with serve_ours(folder / "data", with_a_person(folder)) as process:
        wait_for_health(process, "ok")
        yield process


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(server: AppProcess) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=server.url, api_key=None) as opened:
        yield opened


def created(events: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Name the todos that a turn created."""
    contents = [result["content"] for result in named(events, "tool_result") if result["status"] == "success"]
    return [json.loads(content)["data"]["title"] for content in contents]


def test_a_chat_ends_with_the_request_and_goes_on_with_the_answer(server: AppProcess) -> None:
    thread_id = str(uuid4())

    first = chat(server, message="Add a task to buy milk", thread_id=thread_id)
    [interrupt] = first[-1][1]["interrupts"]
    [request] = interrupt["value"]
    assert first[-1][0] == "interrupt"
    assert request["action_request"] == {"action": "create_todo", "args": {"title": "Buy milk"}}
    assert named(first, "tool_result") == []

    second = chat(server, resume=[{"type": "accept", "args": None}], thread_id=thread_id)
    assert created(second) == ["Buy milk"]
    assert second[-1][0] == "message"
    assert named(second, "tool_call") == []

    third = chat(server, resume=[{"type": "accept"}], thread_id=thread_id)
    assert [name for name, _ in third] == ["metadata", "error"]
    assert "This chat has no pending question" in third[-1][1]["message"]


def test_a_chat_asks_again_after_an_unusable_answer_and_shows_an_edited_call_as_it_ran(server: AppProcess) -> None:
    thread_id = str(uuid4())
    chat(server, message="Add a task to buy milk", thread_id=thread_id)

    again = chat(server, resume={"yes": True}, thread_id=thread_id)
    assert again[-1][0] == "interrupt"
    assert "could not be used" in again[-1][1]["interrupts"][0]["value"][0]["description"]

    edited = chat(server, resume=[{"type": "edit", "args": {"title": "Buy oat milk"}}], thread_id=thread_id)
    assert [call["args"] for call in named(edited, "tool_call")] == [{"title": "Buy oat milk"}]
    assert created(edited) == ["Buy oat milk"]


def test_a_chat_without_a_thread_refuses_calls_that_need_approval(server: AppProcess) -> None:
    events = chat(server, message="Add a task to buy milk")

    [result] = named(events, "tool_result")
    assert (result["status"], "nobody can be asked" in result["content"]) == ("error", True)
    assert events[-1][0] == "message"


async def test_the_sdk_waits_for_the_request_and_resumes(client: LangGraphClient) -> None:
    thread_id = (await client.threads.create())["thread_id"]

    values: Any = await client.runs.wait(thread_id, "todo_agent", input=MILK)
    [interrupt] = values["__interrupt__"]
    thread: Any = await client.threads.get(thread_id)
    assert thread["status"] == "interrupted"
    assert [list_of[0]["value"] for list_of in thread["interrupts"].values()] == [interrupt["value"]]
    assert (await client.threads.get_state(thread_id))["next"] == ["approve"]

    result: Any = await client.runs.wait(thread_id, "todo_agent", command={"resume": [{"type": "approve"}]})

    assert result["status"] == "done"
    assert '"Buy milk"' in next(message["content"] for message in result["messages"] if message["type"] == "tool")
    assert (await client.threads.get(thread_id))["status"] == "idle"


async def test_the_sdk_streams_a_servers_question_and_its_answer(client: LangGraphClient) -> None:
    thread_id = (await client.threads.create())["thread_id"]

    first = client.runs.stream(thread_id, "agent_loop", input=GREET, stream_mode="updates")
    updates = [part.data async for part in first]
    [interrupt] = next(data["__interrupt__"] for data in updates if "__interrupt__" in data)
    assert interrupt["value"][0]["action_request"]["args"]["message"] == "What is your name?"
    command: Any = {"resume": {interrupt["id"]: [{"type": "response", "args": "Eve"}]}}
    second = client.runs.stream(thread_id, "agent_loop", command=command, stream_mode="updates")
    tools: Any = [part.data["tools"] async for part in second if "tools" in part.data]
    assert [update["messages"][0]["content"] for update in tools] == ["Hello Eve"]


async def test_a_copied_thread_waits_for_an_answer_of_its_own(client: LangGraphClient) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread_id, "agent_loop", input=GREET)
    copy: Any = await client.http.post(f"/threads/{thread_id}/copy", json=None)

    texts = []
    for each, name in ((thread_id, "Eve"), (copy["thread_id"], "Bob")):
        result: Any = await client.runs.wait(
            each, "agent_loop", command={"resume": [{"type": "respond", "args": {"value": name}}]}
        )
        texts.append(next(message["content"] for message in result["messages"] if message["type"] == "tool"))

    assert texts == ["Hello Eve", "Hello Bob"]


async def test_a_request_shows_arguments_edited_in_the_state_and_is_repeated_from_its_checkpoint(
    client: LangGraphClient,
) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread_id, "todo_agent", input=MILK)
    state: Any = await client.threads.get_state(thread_id)
    message = state["values"]["messages"][-1]
    message["tool_calls"][0]["args"] = {"title": "Buy tea"}
    await client.threads.update_state(thread_id, {"messages": [message]})
    edited: Any = await client.runs.wait(thread_id, "todo_agent", input=None)
    assert edited["__interrupt__"][0]["value"][0]["action_request"]["args"] == {"title": "Buy tea"}
    await client.runs.wait(thread_id, "todo_agent", command={"resume": "approve"})

    checkpoint_id = state["checkpoint"]["checkpoint_id"]
    again: Any = await client.runs.wait(thread_id, "todo_agent", input=None, checkpoint_id=checkpoint_id)

    assert again["__interrupt__"][0]["value"][0]["action_request"]["args"] == {"title": "Buy milk"}
    assert [message["type"] for message in again["messages"]] == ["human", "ai"]


async def test_a_stateless_run_returns_its_request_and_cannot_be_resumed(client: LangGraphClient) -> None:
    values: Any = await client.runs.wait(None, "todo_agent", input=MILK)
    assert values["__interrupt__"][0]["value"][0]["action_request"]["action"] == "create_todo"

    with pytest.raises(httpx.HTTPStatusError) as refusal:
        await client.runs.wait(None, "todo_agent", command={"resume": "approve"})
    assert refusal.value.response.status_code == 400


async def test_an_unattended_run_requests_no_approval(client: LangGraphClient) -> None:
    config: Any = {"configurable": {"unattended": True}}

    values: Any = await client.runs.wait(None, "todo_agent", input=MILK, config=config)

    assert (values["status"], "__interrupt__" in values) == ("done", False)


async def test_each_of_several_concurrent_answers_goes_to_its_thread(client: LangGraphClient) -> None:
    async def talk(number: int) -> str:
        thread_id = (await client.threads.create())["thread_id"]
        message: Any = {"messages": [{"role": "user", "content": f'Add a task "errand {number}"'}]}
        await client.runs.wait(thread_id, "todo_agent", input=message)
        edited = {"type": "edit", "args": {"title": f"Edited {number}"}}
        result: Any = await client.runs.wait(thread_id, "todo_agent", command={"resume": [edited]})
        return str(next(message["content"] for message in result["messages"] if message["type"] == "tool"))

    results = await asyncio.gather(*(talk(number) for number in range(3)))

    assert [f'"Edited {number}"' in result for number, result in enumerate(results)] == [True] * 3


@pytest.mark.requirement("S-07")
def test_an_approval_outlives_a_crash_and_the_call_runs_once(tmp_path: Path) -> None:
    thread_id = str(uuid4())
    with serve_ours(tmp_path / "data", with_a_person(tmp_path, asking=False)) as process:
        wait_for_health(process, "ok")
        assert chat(process, message="Add a task to buy milk", thread_id=thread_id)[-1][0] == "interrupt"
        process.kill()
        process.start()
        wait_for_health(process, "ok")

        thread = httpx.get(f"{process.url}/threads/{thread_id}", timeout=60).json()
        assert thread["status"] == "interrupted"
        answered = chat(process, resume=[{"type": "accept"}], thread_id=thread_id)
        listed = chat(process, message="What are my tasks?", thread_id=thread_id)

    assert created(answered) == ["Buy milk"]
    [todos] = named(listed, "tool_result")
    assert todos["content"].count('"Buy milk"') == 1
