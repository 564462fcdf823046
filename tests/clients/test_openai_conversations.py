"""Conversations of OpenAI's clients on threads: approvals, cancelled and failed turns, instructions (S-09)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import openai
import pytest
import pytest_asyncio
from langgraph_sdk.client import LangGraphClient
from openai import AsyncOpenAI

from tests.fixtures.app_server import AppServer

pytestmark = pytest.mark.requirement("S-09")

LANGGRAPH_JSON = Path(__file__).parent / "app" / "other_clients.json"
SERVER_ENV = {"TOOLWEAVE_MODEL": "offline", "TOOLWEAVE_MCP_CONFIG": str(LANGGRAPH_JSON.with_name("no_servers.jsonc"))}
BOUND_S = 60.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(app_server: AppServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{app_server.url}/v1", api_key="none", timeout=BOUND_S) as opened:
        yield opened


def user(content: str) -> Any:
    return [{"role": "user", "content": content}]


def answer(call_id: str, content: str) -> Any:
    return [{"role": "tool", "tool_call_id": call_id, "content": content}]


async def wait_at(gate: str, http: httpx.AsyncClient) -> None:
    """Wait until a run is at the gate."""
    (await http.get(f"/gates/{gate}/reached")).raise_for_status()


async def thread_messages(thread_id: str, sdk: LangGraphClient) -> list[tuple[str, str]]:
    state: Any = await sdk.threads.get_state(thread_id)
    return [(message["type"], message["content"]) for message in state["values"]["messages"]]


def thread_of(response: Any) -> str:
    """Return the thread of a response, which its id names."""
    digits: str = response.id.removeprefix("resp_")[:32]
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


async def test_only_open_interrupts_of_the_thread_can_be_answered(client: AsyncOpenAI, sdk: LangGraphClient) -> None:
    thread_id = str(uuid4())
    run: Any = {"model": "approve", "metadata": {"thread_id": thread_id}}
    asked = await client.chat.completions.create(**run, messages=user("hello"))
    [call] = asked.choices[0].message.tool_calls or []
    before = await thread_messages(thread_id, sdk)
    for other in ("interrupt_nope", "interrupt_"):
        with pytest.raises(openai.BadRequestError, match="not open on this thread") as refused:
            await client.chat.completions.create(**run, messages=answer(other, "yes"))
        assert call.id.removeprefix("interrupt_") in refused.value.message
    assert await thread_messages(thread_id, sdk) == before
    done = await client.chat.completions.create(**run, messages=answer(call.id, "yes"))
    assert done.choices[0].message.content == "you said: decided: yes"
    with pytest.raises(openai.BadRequestError, match="Open: none"):
        await client.chat.completions.create(**run, messages=answer(call.id, "yes"))


@pytest.mark.parametrize("action", ["interrupt", "rollback"])
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_cancelled_run_is_an_error(
    client: AsyncOpenAI, sdk: LangGraphClient, http: httpx.AsyncClient, streaming: bool, action: Any
) -> None:
    thread_id, gate = str(uuid4()), str(uuid4())

    async def run() -> None:
        fields: Any = {"model": "talk", "messages": user(f"one @{gate}"), "metadata": {"thread_id": thread_id}}
        if not streaming:
            await client.chat.completions.create(**fields)
            return
        async for _ in await client.chat.completions.create(**fields, stream=True):
            pass

    running = asyncio.create_task(run())
    await wait_at(gate, http)
    [active] = await sdk.runs.list(thread_id)
    await sdk.runs.cancel(thread_id, active["run_id"], action=action)
    with pytest.raises(openai.APIError, match="run was cancelled"):
        await asyncio.wait_for(running, BOUND_S)


async def test_a_cancelled_response_fails(client: AsyncOpenAI, sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    gate = str(uuid4())
    stream = await client.responses.create(model="talk", input=f"one @{gate}", stream=True)
    first: Any = await anext(aiter(stream))
    await wait_at(gate, http)
    thread_id = thread_of(first.response)
    [active] = await sdk.runs.list(thread_id)
    await sdk.runs.cancel(thread_id, active["run_id"])
    last: Any = [event async for event in stream][-1]
    assert (last.type, last.response.error.message) == ("response.failed", "The run was cancelled.")


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_client_that_leaves_while_its_run_waits_for_another_cancels_it(
    client: AsyncOpenAI, sdk: LangGraphClient, http: httpx.AsyncClient, streaming: bool
) -> None:
    thread_id, gate = str(uuid4()), str(uuid4())
    first = await sdk.runs.create(thread_id, "talk", input={"messages": user(f"one @{gate}")}, if_not_exists="create")
    await wait_at(gate, http)
    with pytest.raises(openai.APITimeoutError):
        await client.with_options(timeout=1, max_retries=0).chat.completions.create(
            model="talk", messages=user("two"), metadata={"thread_id": thread_id}, stream=streaming
        )
    [second] = [run for run in await sdk.runs.list(thread_id) if run["run_id"] != first["run_id"]]
    await asyncio.wait_for(sdk.runs.join(thread_id, second["run_id"]), BOUND_S)
    assert (await sdk.runs.get(thread_id, second["run_id"]))["status"] == "interrupted"
    assert (await sdk.runs.get(thread_id, first["run_id"]))["status"] == "running"
    (await http.post(f"/gates/{gate}/open")).raise_for_status()
    await sdk.runs.join(thread_id, first["run_id"])


async def test_a_conversation_continues_after_a_failed_turn(client: AsyncOpenAI) -> None:
    first = await client.responses.create(model="fails", input="paint")
    with pytest.raises(openai.InternalServerError):
        await client.responses.create(model="fails", input="fail", previous_response_id=first.id)
    second = await client.responses.create(model="fails", input="paint", previous_response_id=first.id)
    assert second.status == "completed"
    with pytest.raises(openai.BadRequestError, match="Only the last response"):
        await client.responses.create(model="fails", input="paint", previous_response_id=first.id)


async def test_a_conversation_continues_after_a_cancelled_turn(
    client: AsyncOpenAI, sdk: LangGraphClient, http: httpx.AsyncClient
) -> None:
    first = await client.responses.create(model="talk", input="one")
    thread_id, gate = thread_of(first), str(uuid4())
    second = asyncio.create_task(
        client.responses.create(model="talk", input=f"two @{gate}", previous_response_id=first.id)
    )
    await wait_at(gate, http)
    [active] = await sdk.runs.list(thread_id, status="running")
    await sdk.runs.cancel(thread_id, active["run_id"])
    with pytest.raises(openai.APIError, match="run was cancelled"):
        await asyncio.wait_for(second, BOUND_S)
    third = await client.responses.create(model="talk", input="three", previous_response_id=first.id)
    assert third.output_text == "you said: three"


async def test_new_instructions_replace_those_of_the_conversation(client: AsyncOpenAI, sdk: LangGraphClient) -> None:
    first = await client.responses.create(model="talk", input="one", instructions="Be brief.")
    second = await client.responses.create(
        model="talk", input="two", instructions="Be polite.", previous_response_id=first.id
    )
    assert await thread_messages(thread_of(second), sdk) == [
        ("system", "Be polite."),
        ("human", "one"),
        ("ai", "you said: one"),
        ("human", "two"),
        ("ai", "you said: two"),
    ]


async def test_what_names_a_thread_excludes_the_others(client: AsyncOpenAI, sdk: LangGraphClient) -> None:
    first = await client.responses.create(model="talk", input="one")
    thread_id = thread_of(first)
    conflicts: list[Any] = [
        {"previous_response_id": first.id, "store": False},
        {"previous_response_id": first.id, "metadata": {"thread_id": str(uuid4())}},
        {"store": False, "metadata": {"thread_id": thread_id}},
    ]
    for fields in conflicts:
        with pytest.raises(openai.BadRequestError, match="exclude each other"):
            await client.responses.create(model="talk", input="two", **fields)
    assert len(await thread_messages(thread_id, sdk)) == 2


async def test_any_form_of_a_uuid_names_the_thread(client: AsyncOpenAI, sdk: LangGraphClient) -> None:
    thread = uuid4()
    await client.chat.completions.create(model="talk", messages=user("one"), metadata={"thread_id": thread.hex.upper()})
    assert await thread_messages(str(thread), sdk) == [("human", "one"), ("ai", "you said: one")]
