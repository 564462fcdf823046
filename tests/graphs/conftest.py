"""Serve the demo shop, a site of pages, a scripted model, and our graphs with the shop's tools."""

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
import pytest_asyncio
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from tests.fixtures.app_server import OURS, AppProcess
from tests.fixtures.openai_wire import WireServer, openai_wire
from tests.fixtures.shop_api import SHOP_KEY, SHOP_KEY_VARIABLE, ShopApi
from tests.graphs.script_agent import Agent
from tests.nodes.conftest import running_shop, running_site, shop, site

__all__ = ["running_shop", "running_site", "shop", "site"]


@pytest.fixture(scope="module")
def wire() -> Iterator[WireServer]:
    """Serve a scripted model; a test writes its turns."""
    with openai_wire([]) as server:
        yield server


@pytest.fixture(scope="module")
def serving_env(wire: WireServer) -> dict[str, str]:
    """Return the environment of a server that uses the scripted model and may call the shop."""
    return {
        "OPENAI_BASE_URL": wire.base_url,
        "TOOLWEAVE_MODEL": "m",
        "TOOLWEAVE_OUTBOUND_ALLOW": "127.0.0.1",
        SHOP_KEY_VARIABLE: SHOP_KEY,
    }


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    with openai_wire([]) as server:
        yield Agent(server)


@pytest.fixture(scope="module")
def server(
    running_shop: ShopApi, serving_env: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AppProcess]:
    """Serve our graphs with the shop's tools registered."""
    with AppProcess(OURS, tmp_path_factory.mktemp("data"), serving_env) as process:
        tools = [tool.model_dump(mode="json") for tool in running_shop.tools()]
        assert httpx.post(f"{process.url}/tools/import", json={"tools": tools}, timeout=60).status_code == 201
        yield process


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(server: AppProcess) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=server.url, api_key=None) as made:
        yield made
