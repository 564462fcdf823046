"""Share what the tests of the real clients have in common."""

import pytest

from tests.clients.javascript import Javascript, install_javascript
from tests.fixtures.app_server import AppServer


@pytest.fixture(scope="module")
def javascript(app_server: AppServer) -> Javascript:
    """Give the JavaScript clients, pointed at the module's server."""
    return install_javascript(app_server.url)
