"""langgraph-sdk for Python, both of its clients, against our server: every resource once, and streams that are cut."""

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError

from tests.clients.python.conftest import Sdk
from tests.fixtures.app_server import AppServer
from tests.fixtures.cutting_proxy import CuttingProxy, open_cutting_proxy

pytestmark = pytest.mark.requirement("S-01")

LANGGRAPH_JSON = Path(__file__).parent.parent / "app" / "langgraph.json"
NOBODY = "00000000-0000-4000-8000-000000000000"
YEARLY = "0 0 1 1 *"


def human(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


async def test_assistants(any_sdk: Sdk) -> None:
    assistants = any_sdk.client.assistants
    made = await any_sdk(assistants.create, "talk", context={"prefix": "one"}, metadata={"by": "py"}, name="A voice")
    assert (await any_sdk(assistants.get, made["assistant_id"]))["name"] == "A voice"
    with pytest.raises(ConflictError):
        await any_sdk(assistants.create, "talk", assistant_id=made["assistant_id"])
    changed = await any_sdk(assistants.update, made["assistant_id"], context={"prefix": "two"}, description="Two")
    assert (changed["version"], changed["description"], changed["metadata"]) == (2, "Two", {"by": "py"})
    versions = await any_sdk(assistants.get_versions, made["assistant_id"])
    assert [version["version"] for version in versions] == [2, 1]
    assert (await any_sdk(assistants.set_latest, made["assistant_id"], 1))["version"] == 1
    found = await any_sdk(assistants.search, metadata={"by": "py"}, response_format="object")
    assert [one["assistant_id"] for one in found["assistants"]] == [made["assistant_id"]]
    assert found["next"] is None
    assert await any_sdk(assistants.count, metadata={"by": "py"}) == 1
    assert [node["id"] for node in (await any_sdk(assistants.get_graph, made["assistant_id"]))["nodes"]] == [
        *("__start__", "prepare", "model", "__end__")
    ]
    assert (await any_sdk(assistants.get_schemas, made["assistant_id"]))["context_schema"]["title"] == "Style"
    assert await any_sdk(assistants.get_subgraphs, made["assistant_id"], recurse=True) == {}
    await any_sdk(assistants.delete, made["assistant_id"])
    with pytest.raises(NotFoundError):
        await any_sdk(assistants.get, made["assistant_id"])


async def test_threads(any_sdk: Sdk) -> None:
    threads, runs = any_sdk.client.threads, any_sdk.client.runs
    mark = str(uuid4())
    made = await any_sdk(threads.create, metadata={"mark": mark}, graph_id="count", ttl=60)
    thread_id = made["thread_id"]
    assert (await any_sdk(threads.create, thread_id=thread_id, if_exists="do_nothing"))["metadata"]["mark"] == mark
    assert (await any_sdk(threads.update, thread_id, metadata={"more": 1}))["metadata"]["more"] == 1
    await any_sdk(runs.wait, thread_id, "count", input={"n": 1})
    (found,) = await any_sdk(
        threads.search, metadata={"mark": mark}, values={"n": 4}, status="idle", extract={"last": "values.log[-1]"}
    )
    assert (found["thread_id"], found["extracted"]) == (thread_id, {"last": "double"})
    assert await any_sdk(threads.count, metadata={"mark": mark}) == 1
    state = await any_sdk(threads.get_state, thread_id, subgraphs=True)
    history = await any_sdk(threads.get_history, thread_id)
    assert state["checkpoint"] == history[0]["checkpoint"]
    assert len(history) == 4
    early = await any_sdk(threads.get_state, thread_id, checkpoint=history[2]["checkpoint"])
    assert early["next"] == ["add"]
    for before in (history[1]["checkpoint"], {"configurable": history[1]["checkpoint"]}):
        older = await any_sdk(threads.get_history, thread_id, before=before)
        assert [past["next"] for past in older] == [["add"], ["__start__"]]
    updated = await any_sdk(threads.update_state, thread_id, {"n": 10}, as_node="add")
    assert (await any_sdk(threads.get_state, thread_id))["checkpoint"] == updated["checkpoint"]
    copied = await any_sdk(threads.copy, thread_id)
    assert copied is None or copied["thread_id"] != thread_id
    await any_sdk(threads.delete, thread_id)
    assert await any_sdk(threads.prune, [thread_id]) == {"pruned_count": 0}
    with pytest.raises(NotFoundError):
        await any_sdk(threads.get, thread_id)


async def test_runs(any_sdk: Sdk) -> None:
    threads, runs = any_sdk.client.threads, any_sdk.client.runs
    thread_id = (await any_sdk(threads.create))["thread_id"]
    created: list[Any] = []
    parts = await any_sdk(
        runs.stream,
        thread_id,
        "count",
        input={"n": 1},
        stream_mode=["values", "updates"],
        stream_resumable=True,
        on_run_created=created.append,
    )
    run_id = parts[0].data["run_id"]
    assert created == [{"run_id": run_id, "thread_id": thread_id}]
    assert parts[-1].data == {"n": 4, "log": ["add", "double"]}
    assert await any_sdk(runs.join_stream, thread_id, run_id, last_event_id="-1") == parts
    only = await any_sdk(runs.join_stream, thread_id, run_id, last_event_id="-1", stream_mode=["updates"])
    assert [part.event for part in only] == ["updates", "updates"]
    assert await any_sdk(runs.join, thread_id, run_id) == parts[-1].data
    run = await any_sdk(runs.create, thread_id, "count", input={"n": 1}, after_seconds=3600)
    assert [one["run_id"] for one in await any_sdk(runs.list, thread_id, status="pending")] == [run["run_id"]]
    await any_sdk(runs.cancel, thread_id, run["run_id"], wait=True)
    assert (await any_sdk(runs.get, thread_id, run["run_id"]))["status"] == "interrupted"
    await any_sdk(runs.delete, thread_id, run["run_id"])
    with pytest.raises(NotFoundError):
        await any_sdk(runs.cancel_many, thread_id=thread_id, run_ids=[NOBODY])
    with pytest.raises(UnprocessableEntityError):
        await any_sdk(runs.create, thread_id, "count", input={}, stream_mode="nonsense")
    batch = await any_sdk(runs.create_batch, [{"assistant_id": "count", "input": {"n": n}} for n in (1, 2)])
    assert len({one["thread_id"] for one in batch}) == 2


async def test_version_two_of_the_stream_has_typed_parts(any_sdk: Sdk) -> None:
    stream = any_sdk.client.runs.stream
    parts = await any_sdk(
        stream, None, "family", input={"n": 1}, stream_mode=["updates"], stream_subgraphs=True, version="v2"
    )
    assert [part["type"] for part in parts] == ["metadata", *["updates"] * 4]
    assert [len(part["ns"]) for part in parts[1:]] == [0, 1, 1, 0]
    assert parts[-1]["data"] == {"child": {"n": 3, "answer": "unasked"}}


async def test_an_interrupt_is_waited_for_and_resumed(any_sdk: Sdk) -> None:
    threads, runs = any_sdk.client.threads, any_sdk.client.runs
    thread_id = (await any_sdk(threads.create))["thread_id"]
    values = await any_sdk(runs.wait, thread_id, "family", input={"n": 1, "ask": True})
    (question,) = values["__interrupt__"]
    assert question["value"] == {"question": 3}
    resume = {question["id"]: "yes"}
    assert (await any_sdk(runs.wait, thread_id, "family", command={"resume": resume}))["answer"] == "yes"


async def test_a_threads_stream(any_sdk: Sdk) -> None:
    threads, runs = any_sdk.client.threads, any_sdk.client.runs
    thread_id = (await any_sdk(threads.create))["thread_id"]

    def first_run_in_step() -> list[Any]:
        parts = []
        for part in threads.join_stream(thread_id, last_event_id="-"):
            parts.append(part)
            if _is_done(part):
                break
        return parts

    async def first_run() -> list[Any]:
        if any_sdk.waits:
            return await asyncio.to_thread(first_run_in_step)
        parts = []
        async with aclosing(await threads.join_stream(thread_id, last_event_id="-")) as stream:
            async for part in stream:
                parts.append(part)
                if _is_done(part):
                    break
        return parts

    await any_sdk(runs.create, thread_id, "count", input={"n": 1}, stream_resumable=True)
    async with asyncio.timeout(60):
        received = await first_run()
    assert [part.data["n"] for part in received if part.event == "values"] == [1, 2, 4]


async def test_crons(any_sdk: Sdk) -> None:
    crons = any_sdk.client.crons
    mark = str(uuid4())
    end = datetime(2999, 1, 1, tzinfo=UTC)
    made = await any_sdk(
        crons.create, "count", schedule=YEARLY, input={"n": 1}, metadata={"mark": mark}, end_time=end, enabled=False
    )
    assert (made["schedule"], made["enabled"]) == (YEARLY, False)
    changed = await any_sdk(crons.update, made["cron_id"], timezone="Asia/Tokyo", enabled=True)
    assert changed["next_run_date"][11:16] == "15:00"
    (found,) = await any_sdk(crons.search, metadata={"mark": mark}, enabled=True)
    assert found["cron_id"] == made["cron_id"]
    assert await any_sdk(crons.count, metadata={"mark": mark}) == 1
    thread_id = (await any_sdk(any_sdk.client.threads.create))["thread_id"]
    bound = await any_sdk(crons.create_for_thread, thread_id, "count", schedule=YEARLY)
    assert bound["thread_id"] == thread_id
    for cron in (made, bound):
        await any_sdk(crons.delete, cron["cron_id"])
    with pytest.raises(NotFoundError):
        await any_sdk(crons.delete, made["cron_id"])


async def test_the_store(any_sdk: Sdk) -> None:
    store = any_sdk.client.store
    place = ("py", str(uuid4()))
    for cups in (1, 2):
        await any_sdk(store.put_item, place, key=f"cup-{cups}", value={"cups": cups})
    assert (await any_sdk(store.get_item, place, "cup-1"))["value"] == {"cups": 1}
    found = await any_sdk(store.search_items, place, filter={"cups": {"$gt": 1}})
    assert [item["key"] for item in found["items"]] == ["cup-2"]
    listed = await any_sdk(store.list_namespaces, prefix=place)
    assert listed["namespaces"] == [list(place)]
    await any_sdk(store.delete_item, place, key="cup-1")
    assert await any_sdk(store.get_item, place, "cup-1") is None


@pytest.mark.parametrize("thread", ["on a thread", "without a thread"])
async def test_a_cut_stream_continues_after_its_last_event(
    app_server: AppServer, http: httpx.AsyncClient, thread: str
) -> None:
    gate = str(uuid4())
    parts: list[Any] = []

    async def cut_and_open(proxy: CuttingProxy) -> None:
        await http.get(f"/gates/{gate}/reached")
        proxy.cut()
        # A run that ended before the client is back would be gone with its temporary thread.
        await proxy.answered.wait()
        await http.post(f"/gates/{gate}/open")

    options: dict[str, Any] = {"input": human(f"before @{gate} after"), "stream_resumable": True}
    async with (
        asyncio.timeout(60),
        open_cutting_proxy(app_server.url) as proxy,
        get_client(url=proxy.url, api_key=None) as sdk,
        asyncio.TaskGroup() as tasks,
    ):
        thread_id: Any = (await sdk.threads.create())["thread_id"] if thread == "on a thread" else None
        async for part in sdk.runs.stream(thread_id, "talk", stream_mode=["messages-tuple"], **options):
            parts.append(part)
            if _text(parts) == "you said: before":
                tasks.create_task(cut_and_open(proxy))
    assert _text(parts) == "you said: before after"
    assert len({part.id for part in parts}) == len(parts)


async def test_a_cut_stream_of_the_synchronous_client_continues_after_its_last_event(
    app_server: AppServer, http: httpx.AsyncClient
) -> None:
    gate, half = str(uuid4()), asyncio.Event()
    loop = asyncio.get_running_loop()

    def listen(url: str) -> list[Any]:
        parts: list[Any] = []
        options: dict[str, Any] = {"input": human(f"before @{gate} after"), "stream_resumable": True}
        with get_sync_client(url=url, api_key=None) as sdk:
            thread_id = sdk.threads.create()["thread_id"]
            for part in sdk.runs.stream(thread_id, "talk", stream_mode=["messages-tuple"], **options):
                parts.append(part)
                if _text(parts) == "you said: before":
                    loop.call_soon_threadsafe(half.set)
        return parts

    async with asyncio.timeout(60), open_cutting_proxy(app_server.url) as proxy:
        listening = asyncio.create_task(asyncio.to_thread(listen, proxy.url))
        await half.wait()
        proxy.cut()
        await http.post(f"/gates/{gate}/open")
        parts = await listening
    assert _text(parts) == "you said: before after"
    assert len({part.id for part in parts}) == len(parts)


def _is_done(part: Any) -> bool:
    return isinstance(part.data, dict) and part.data.get("status") == "run_done"


def _text(parts: list[Any]) -> str:
    return "".join(part.data[0]["content"] for part in parts if part.event == "messages")
