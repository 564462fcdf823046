"""Give each test a thread of its own on the module's server."""

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from tests.api.langgraph.steering import Thread


@pytest.fixture
async def thread_id(http: httpx.AsyncClient) -> str:
    thread_id: str = (await http.post("/threads", json={})).json()["thread_id"]
    return thread_id


@pytest.fixture
async def thread(http: httpx.AsyncClient, sdk: LangGraphClient, thread_id: str) -> Thread:
    return Thread(thread_id, sdk, http)
