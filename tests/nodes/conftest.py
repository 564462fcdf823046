"""Serve the demo shop and a site of pages."""

from collections.abc import Iterator

import pytest

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
def shop(running_shop: ShopApi, monkeypatch: pytest.MonkeyPatch) -> ShopApi:
    """Give the shop in its first state, with its key in the environment and without requests."""
    monkeypatch.setenv(SHOP_KEY_VARIABLE, SHOP_KEY)
    running_shop.clear()
    return running_shop


@pytest.fixture
def site(running_site: WebPages) -> WebPages:
    """Give the site in its first state, without requests."""
    running_site.forget()
    return running_site
