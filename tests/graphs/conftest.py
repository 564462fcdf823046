"""Serve the demo shop to the tests of the workflow, with its key in the environment."""

from collections.abc import Iterator

import pytest

from tests.fixtures.shop_api import SHOP_KEY, SHOP_KEY_VARIABLE, ShopApi, shop_api


@pytest.fixture(scope="module")
def running_shop() -> Iterator[ShopApi]:
    with shop_api() as shop:
        yield shop


@pytest.fixture
def shop(running_shop: ShopApi, monkeypatch: pytest.MonkeyPatch) -> ShopApi:
    """Give the shop as it was at first, with nothing asked of it yet."""
    monkeypatch.setenv(SHOP_KEY_VARIABLE, SHOP_KEY)
    running_shop.clear()
    return running_shop
