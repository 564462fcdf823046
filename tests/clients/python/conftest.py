"""Both official Python clients behind one way of calling them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.client import LangGraphClient, SyncLangGraphClient

from tests.fixtures.app_server import AppServer


class Sdk:
    """A client whose methods are all awaited; streams come as lists."""

    def __init__(self, client: LangGraphClient | SyncLangGraphClient) -> None:
        self.client: Any = client
        self.waits = isinstance(client, SyncLangGraphClient)

    async def __call__(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a method of the client and give its result."""
        if self.waits:
            return await asyncio.to_thread(lambda: _whole(method(*args, **kwargs)))
        result = method(*args, **kwargs)
        return [part async for part in result] if hasattr(result, "__aiter__") else await result


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["async", "sync"])
async def any_sdk(request: pytest.FixtureRequest, app_server: AppServer) -> AsyncIterator[Sdk]:
    """Give either client of the module's server."""
    if request.param == "sync":
        with get_sync_client(url=app_server.url, api_key=None) as synchronous:
            yield Sdk(synchronous)
    else:
        async with get_client(url=app_server.url, api_key=None) as client:
            yield Sdk(client)


def _whole(result: Any) -> Any:
    return list(result) if hasattr(result, "__next__") else result
