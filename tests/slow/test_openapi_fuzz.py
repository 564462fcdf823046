"""Thirty times as many requests as the quick suite sends, and new ones each time: no 5xx and no undocumented answer."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.fixtures.app_server import AppServer
from tests.fixtures.openapi_fuzz import OPERATIONS, Prober

LANGGRAPH_JSON = Path(__file__).parent.parent / "api" / "langgraph" / "app" / "langgraph.json"
REQUESTS = 6_000
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:Do not use the .random. module inside strategies"),
]


@pytest.fixture(scope="module")
def prober(app_server: AppServer) -> Iterator[Prober]:
    with httpx.Client(base_url=app_server.url) as client:
        yield Prober(client)


@pytest.mark.parametrize("label", OPERATIONS)
def test_an_operation_answers_only_what_is_documented(label: str, prober: Prober) -> None:
    prober.probe_often(label, -(-REQUESTS // len(OPERATIONS)))
