"""Requests for unknown threads and with bad values are refused with the reason (langgraph_api.md 2.2)."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.langgraph.steering import NOBODY, Thread

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"


@pytest.mark.api("POST /threads", "422 bad id, ttl, supersteps or if_exists")
@pytest.mark.api("POST /threads/search", "422 bad filter, page, order, select or extract")
@pytest.mark.api("POST /threads/count", "422 bad filter")
@pytest.mark.api("POST /threads/{thread_id}/copy", "422 bad thread id")
@pytest.mark.api("PATCH /threads/{thread_id}", "422 bad thread id, metadata or ttl")
@pytest.mark.api("GET /threads/{thread_id}/state", "404 unknown thread, or its graph is not served any more")
@pytest.mark.api("GET /threads/{thread_id}/state", "422 bad thread id or select")
@pytest.mark.api("POST /threads/{thread_id}/state", "422 bad thread id or body")
@pytest.mark.api("POST /threads/{thread_id}/state/checkpoint", "404 unknown thread")
@pytest.mark.api("POST /threads/{thread_id}/state/checkpoint", "422 bad thread id or no checkpoint")
@pytest.mark.api("GET /threads/{thread_id}/state/{checkpoint_id}", "404 unknown thread")
@pytest.mark.api("GET /threads/{thread_id}/state/{checkpoint_id}", "422 bad thread id")
@pytest.mark.api("GET /threads/{thread_id}/history", "404 unknown thread")
@pytest.mark.api("GET /threads/{thread_id}/history", "422 bad thread id or limit")
@pytest.mark.api("POST /threads/{thread_id}/history", "404 unknown thread")
@pytest.mark.api("POST /threads/prune", "422 missing or bad ids, unknown strategy")
@pytest.mark.api("GET /threads/{thread_id}/storage", "404 unknown thread")
@pytest.mark.api("GET /threads/{thread_id}/storage", "422 bad thread id")
@pytest.mark.api("GET /threads/{thread_id}/stream", "404 unknown thread")
@pytest.mark.api("GET /threads/{thread_id}/stream", "422 bad thread id, mode or Last-Event-ID")
@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/threads", {"thread_id": "zz"}, 422),
        ("POST", "/threads", {"if_exists": "maybe"}, 422),
        ("POST", "/threads", {"supersteps": [{}]}, 422),
        ("POST", "/threads/search", {"status": "zz"}, 422),
        ("POST", "/threads/search", {"limit": 0}, 422),
        ("POST", "/threads/search", {"offset": -1}, 422),
        ("POST", "/threads/search", {"sort_by": "zz"}, 422),
        ("POST", "/threads/search", {"select": ["error"]}, 422),
        ("POST", "/threads/search", {"ids": ["zz"]}, 422),
        ("POST", "/threads/search", {"ids": [NOBODY] * 10_001}, 422),
        ("POST", "/threads/search", {"extract": {"a-b": "values.n"}}, 422),
        ("POST", "/threads/search", {"extract": {"": "values.n"}}, 422),
        ("POST", "/threads/count", {"metadata": []}, 422),
        ("POST", "/threads/zz/copy", None, 422),
        ("PATCH", "/threads/zz", {}, 422),
        ("PATCH", f"/threads/{NOBODY}", {"metadata": [1]}, 422),
        # The reference server has this method.
        ("PATCH", f"/threads/{NOBODY}/state", {"metadata": {"a": 1}}, 405),
        ("GET", f"/threads/{NOBODY}/state", None, 404),
        ("GET", "/threads/zz/state", None, 422),
        ("GET", "/threads/{thread}/state?select=zz", None, 422),
        ("POST", f"/threads/{NOBODY}/state", {"values": {}}, 404),
        ("POST", "/threads/zz/state", {"values": {}}, 422),
        ("POST", f"/threads/{NOBODY}/state", {"values": "x"}, 422),
        ("POST", f"/threads/{NOBODY}/state/checkpoint", {"checkpoint": {}}, 404),
        ("POST", "/threads/zz/state/checkpoint", {"checkpoint": {}}, 422),
        ("POST", f"/threads/{NOBODY}/state/checkpoint", {}, 422),
        ("GET", f"/threads/{NOBODY}/state/{NOBODY}", None, 404),
        ("GET", f"/threads/zz/state/{NOBODY}", None, 422),
        ("GET", f"/threads/{NOBODY}/history", None, 404),
        ("GET", "/threads/zz/history", None, 422),
        ("GET", f"/threads/{NOBODY}/history?limit=0", None, 422),
        ("GET", f"/threads/{NOBODY}/history?limit=abc", None, 422),
        ("POST", f"/threads/{NOBODY}/history", {}, 404),
        ("POST", "/threads/zz/history", {}, 422),
        ("POST", f"/threads/{NOBODY}/history", {"limit": 1001}, 422),
        ("POST", "/threads/{thread}/history", {"select": ["zz"]}, 422),
        ("POST", "/threads/prune", {}, 422),
        ("POST", "/threads/prune", {"thread_ids": ["zz"]}, 422),
        ("POST", "/threads/prune", {"thread_ids": [], "strategy": "zz"}, 422),
        ("POST", "/threads/prune", {"thread_ids": "x"}, 422),
        ("GET", f"/threads/{NOBODY}/storage", None, 404),
        ("GET", "/threads/zz/storage", None, 422),
        ("GET", f"/threads/{NOBODY}/stream", None, 404),
        ("GET", "/threads/zz/stream", None, 422),
        ("GET", f"/threads/{NOBODY}/stream?stream_modes=zz", None, 422),
        ("GET", f"/threads/{NOBODY}/stream?stream_mode=run_modes&stream_mode=values", None, 422),
    ],
)
async def test_a_bad_request_is_refused(
    http: httpx.AsyncClient, thread: Thread, method: str, path: str, body: Any, status: int
) -> None:
    if "{thread}" in path:
        await thread.wait("steps", input={"n": 1})
    answer = await http.request(method, path.replace("{thread}", thread.id), json=body)
    assert (answer.status_code, answer.headers.get("allow")) == (status, "GET, HEAD, POST" if status == 405 else None)
    assert isinstance(answer.json()["detail"], str)
