"""Give each test a thread of its own on the module's server."""

import httpx
import pytest


@pytest.fixture
async def thread_id(http: httpx.AsyncClient) -> str:
    thread_id: str = (await http.post("/threads", json={})).json()["thread_id"]
    return thread_id
