"""Share one scripted endpoint among the tests of a module: making a client for each would take most of their time."""

from collections.abc import Iterator

import pytest

from tests.fixtures.openai_wire import openai_wire
from tests.nodes.model_at import model_at
from tests.nodes.script.writing import Endpoint


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with openai_wire([]) as server:
        yield Endpoint(server, model_at(server))
