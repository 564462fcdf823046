"""Serve the demo shop, with its key in the environment, a site of pages, and a scripted model."""

from collections.abc import Iterator

import pytest

from tests.fixtures.openai_wire import WireServer, openai_wire
from tests.fixtures.shop_api import SHOP_KEY, SHOP_KEY_VARIABLE, ShopApi, shop_api
from tests.fixtures.web_pages import WebPages, web_pages


@pytest.fixture(scope="module")
def running_shop() -> Iterator[ShopApi]:
    with shop_api() as shop:
        yield shop


@pytest.fixture(scope="module")
def running_site() -> Iterator[WebPages]:
    with web_pages() as site:
        yield site


@pytest.fixture
def site(running_site: WebPages) -> WebPages:
    """Give the site as it was at first, with nothing asked of it yet."""
    running_site.forget()
    return running_site


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


@pytest.fixture
def shop(running_shop: ShopApi, monkeypatch: pytest.MonkeyPatch) -> ShopApi:
    """Give the shop as it was at first, with nothing asked of it yet."""
    monkeypatch.setenv(SHOP_KEY_VARIABLE, SHOP_KEY)
    running_shop.clear()
    return running_shop
