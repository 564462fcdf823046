"""Every endpoint that creates runs refuses an invalid run with the same error (langgraph_api.md 2.3, 2.4)."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from tests.api.langgraph.steering import NOBODY, Thread, new_thread

LANGGRAPH_JSON = Path(__file__).parent / "runs_app" / "langgraph.json"
ENDS = ("", "/stream", "/wait")
BOTH = {"assistant_id": "letters", "context": {"a": 1}, "config": {"configurable": {"b": 2}}}
BAD_BODIES: tuple[Any, ...] = (
    [],
    {},
    {"assistant_id": 1},
    {"assistant_id": "nope"},
    {"assistant_id": "letters", "stream_mode": "zz"},
    {"assistant_id": "letters", "multitask_strategy": "zz"},
    {"assistant_id": "letters", "on_disconnect": "zz"},
    {"assistant_id": "letters", "durability": "zz"},
    {"assistant_id": "letters", "after_seconds": "1"},
    {"assistant_id": "letters", "config": {"tags": "t"}},
    {"assistant_id": "letters", "command": {"goto": 1}},
)


async def refused(http: httpx.AsyncClient, path: str, body: object, status: int, detail: str = "") -> None:
    for end in ENDS:
        answer = await http.post(f"{path}{end}", json=body)
        assert answer.status_code == status, (end, answer.text)
        assert answer.json()["detail"].startswith(detail)


@pytest.mark.api("POST /threads/{thread_id}/runs", "400 for context beside config.configurable")
@pytest.mark.api("POST /threads/{thread_id}/runs/stream", "400 for context beside config.configurable")
@pytest.mark.api("POST /threads/{thread_id}/runs/wait", "400 for context beside config.configurable")
@pytest.mark.api("POST /runs", "400 for context beside config.configurable")
@pytest.mark.api("POST /runs/stream", "400 for context beside config.configurable")
@pytest.mark.api("POST /runs/wait", "400 for context beside config.configurable")
async def test_context_and_configurable_exclude_each_other(http: httpx.AsyncClient, thread: Thread) -> None:
    await refused(http, "/runs", BOTH, 400)
    await refused(http, f"/threads/{thread.id}/runs", BOTH, 400)
    assert await thread.runs() == []


@pytest.mark.parametrize(
    ("wrong", "status", "detail"),
    [
        ({"webhook": "ftp://hooks.example/x"}, 422, ""),
        ({"webhook": "/loopback"}, 422, ""),
        ({"checkpoint_id": "zz"}, 422, "Invalid checkpoint ID: must be a UUID"),
        (
            {"context": {"a": 1}, "config": {"configurable": {"b": 2}}},
            400,
            "Cannot specify both configurable and context",
        ),
    ],
)
async def test_an_invalid_field_is_refused_before_thread_and_assistant_are_looked_up(
    http: httpx.AsyncClient, wrong: dict[str, Any], status: int, detail: str
) -> None:
    body = {"assistant_id": NOBODY, **wrong}
    await refused(http, f"/threads/{NOBODY}/runs", body, status, detail)
    if "checkpoint_id" not in wrong:
        await refused(http, "/runs", body, status, detail)
        answer = await http.post("/runs/batch", json=[{"assistant_id": NOBODY}, body])
        assert answer.status_code == status, answer.text


@pytest.mark.api("POST /threads/{thread_id}/runs", "404 for an unknown thread, assistant or checkpoint")
@pytest.mark.api("POST /threads/{thread_id}/runs/stream", "404 for an unknown thread, assistant or checkpoint")
@pytest.mark.api("POST /threads/{thread_id}/runs/wait", "404 for an unknown thread, assistant or checkpoint")
@pytest.mark.api("POST /runs", "404 for an unknown assistant")
@pytest.mark.api("POST /runs/stream", "404 for an unknown assistant")
@pytest.mark.api("POST /runs/wait", "404 for an unknown assistant")
async def test_an_unknown_thread_assistant_or_checkpoint_is_not_found(http: httpx.AsyncClient, thread: Thread) -> None:
    missing = "Thread or assistant not found."
    await refused(http, "/runs", {"assistant_id": NOBODY}, 404, missing)
    await refused(http, f"/threads/{thread.id}/runs", {"assistant_id": NOBODY}, 404, missing)
    await refused(http, f"/threads/{thread.id}/runs", {"assistant_id": "letters", "checkpoint_id": NOBODY}, 404)
    await refused(http, f"/threads/{NOBODY}/runs", {"assistant_id": "letters"}, 404, missing)
    assert await thread.runs() == []


@pytest.mark.api("POST /threads/{thread_id}/runs", "409 on a busy thread, when it is not to be waited for")
@pytest.mark.api("POST /threads/{thread_id}/runs/stream", "409 on a busy thread, when it is not to be waited for")
@pytest.mark.api("POST /threads/{thread_id}/runs/wait", "409 on a busy thread, when it is not to be waited for")
async def test_a_busy_thread_is_a_conflict_with_reject(http: httpx.AsyncClient, thread: Thread) -> None:
    late = {"assistant_id": "letters", "input": {}, "after_seconds": 3600}
    run = (await thread.post("/runs", json=late)).json()
    body = {"assistant_id": "letters", "input": {}, "multitask_strategy": "reject"}
    await refused(http, f"/threads/{thread.id}/runs", body, 409)
    assert [found["run_id"] for found in await thread.runs()] == [run["run_id"]]
    await thread.cancel(run["run_id"])


@pytest.mark.api("POST /threads/{thread_id}/runs", "422 for a body or an assistant that is not valid")
@pytest.mark.api("POST /threads/{thread_id}/runs/stream", "422 for a body or an assistant that is not valid")
@pytest.mark.api("POST /threads/{thread_id}/runs/wait", "422 for a body or an assistant that is not valid")
@pytest.mark.api("POST /runs", "422 for a body or an assistant that is not valid")
@pytest.mark.api("POST /runs/stream", "422 for a body or an assistant that is not valid")
@pytest.mark.api("POST /runs/wait", "422 for a body or an assistant that is not valid")
@pytest.mark.parametrize("body", BAD_BODIES)
async def test_an_invalid_body_is_refused(http: httpx.AsyncClient, thread: Thread, body: Any) -> None:
    await refused(http, "/runs", body, 422)
    await refused(http, f"/threads/{thread.id}/runs", body, 422)
    assert await thread.runs() == []


@pytest.mark.api("GET /threads/{thread_id}/runs", "404 for an unknown thread")
@pytest.mark.api("GET /threads/{thread_id}/runs/{run_id}", "404 for an unknown thread or run")
@pytest.mark.api("DELETE /threads/{thread_id}/runs/{run_id}", "404 for an unknown thread or run")
async def test_unknown_threads_and_runs_are_not_found(http: httpx.AsyncClient, sdk: LangGraphClient) -> None:
    assert (await http.get(f"/threads/{NOBODY}/runs")).status_code == 404
    run_id = (await sdk.runs.create(await new_thread(sdk), "letters", after_seconds=3600))["run_id"]
    for thread_id in (await new_thread(sdk), NOBODY):
        for method in ("GET", "DELETE"):
            assert (await http.request(method, f"/threads/{thread_id}/runs/{NOBODY}")).status_code == 404
            assert (await http.request(method, f"/threads/{thread_id}/runs/{run_id}")).status_code == 404


@pytest.mark.api("GET /threads/{thread_id}/runs/{run_id}", "422 for an id that is not a UUID")
@pytest.mark.api("DELETE /threads/{thread_id}/runs/{run_id}", "422 for an id that is not a UUID")
@pytest.mark.api("GET /threads/{thread_id}/runs/{run_id}/join", "422 for an id that is not a UUID")
@pytest.mark.api("GET /threads/{thread_id}/runs/{run_id}/stream", "422 for an id that is not a UUID")
@pytest.mark.api("GET /runs/{run_id}/stream", "422 for an id that is not a UUID")
async def test_ids_are_uuids(http: httpx.AsyncClient) -> None:
    assert (await http.get("/runs/zz/stream")).status_code == 422
    for path in (f"/threads/{NOBODY}/runs/zz", f"/threads/zz/runs/{NOBODY}"):
        wrong = "run" if path.endswith("zz") else "thread"
        for method, end in (("GET", ""), ("DELETE", ""), ("GET", "/join"), ("GET", "/stream")):
            answer = await http.request(method, f"{path}{end}")
            assert (answer.status_code, answer.json()) == (422, {"detail": f"Invalid {wrong} ID: must be a UUID"})
