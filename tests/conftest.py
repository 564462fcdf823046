"""Make the fixtures that run real servers known to every test."""

pytest_plugins = ["tests.fixtures.app_server", "tests.fixtures.mcp_server", "tests.fixtures.postgres"]
