"""No request that the OpenAPI document allows, or almost allows, gets a 5xx or an answer that it does not describe."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.fixtures.app_server import AppServer
from tests.fixtures.openapi_fuzz import OPERATIONS, Prober
from toolweave.api.langgraph.app import ENDPOINTS

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
REQUESTS = 220
# The server's thread draws from the process's random numbers while Hypothesis makes up the next request.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the .random. module inside strategies")


@pytest.fixture(scope="module")
def prober(app_server: AppServer) -> Iterator[Prober]:
    with httpx.Client(base_url=app_server.url) as client:
        yield Prober(client)


@pytest.mark.parametrize("label", OPERATIONS)
def test_an_operation_answers_only_what_is_documented(label: str, prober: Prober) -> None:
    # Some drawn requests are alike and are sent once.
    prober.probe_often(label, -(-REQUESTS * 6 // 5 // len(OPERATIONS)))


def test_every_endpoint_is_fuzzed() -> None:
    assert len(OPERATIONS) == len(ENDPOINTS)
