"""Serve the demo shop, with its key in the environment, a site of pages, and a scripted model."""

from collections.abc import Iterator

import pytest

from tests.fixtures.openai_wire import WireServer, openai_wire
from tests.fixtures.shop_api import SHOP_KEY, SHOP_KEY_VARIABLE
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
    """Give the environment of a server that asks the scripted model and may call the shop."""
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
