"""Share one scripted endpoint among the tests of a module: making a client for each would take most of their time."""

from collections.abc import Iterator

import pytest

from tests.fixtures.openai_wire import openai_wire
from tests.fixtures.shop_api import ShopApi, shop_api
from tests.nodes.workflow.selecting import Endpoint, model_at


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with openai_wire([]) as server:
        yield Endpoint(server, model_at(server))


@pytest.fixture(scope="module")
def running_shop() -> Iterator[ShopApi]:
    with shop_api() as shop:
        yield shop


@pytest.fixture
def shop(running_shop: ShopApi) -> ShopApi:
    running_shop.clear()
    return running_shop
