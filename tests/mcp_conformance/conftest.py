"""Give Node with the suite installed."""

import pytest

from tests.fixtures.node_packages import node_with_packages
from tests.mcp_conformance.suite import HERE


@pytest.fixture(scope="session")
def node() -> str:
    return node_with_packages(HERE)
