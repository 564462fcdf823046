"""Make the fixtures that run real servers known to every test; keep the collector off what lives as long as the run."""

import gc
import signal
import sys
from collections.abc import Generator
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, settings
from loguru import logger

import toolweave
from tests.fixtures.certificates import one_authority
from tests.fixtures.forked_python import forked_python

# Allocations between two looks for garbage, and how many young looks come before an old one: tests make little.
SELDOM = (20_000, 20, 50)

# `make test` tries the same examples each time and measures no time; `make slow` tries others (--hypothesis-profile).
settings.register_profile(
    "fixed",
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("random", settings.get_profile("fixed"), max_examples=300, derandomize=False, print_blob=True)
settings.load_profile("fixed")

# Importing the package has switched its log off.
logger.enable(toolweave.__name__)
# Now: the plugins below and the tests take it for a default.
_UNTIL_THE_END = ExitStack()
sys.executable = _UNTIL_THE_END.enter_context(forked_python())
_UNTIL_THE_END.enter_context(one_authority())

pytest_plugins = [
    "tests.fixtures.forked_workers",
    "tests.fixtures.mcp_server",
    "tests.fixtures.postgres",
    "tests.fixtures.app_server",
    "tests.servers.connections.oauth.guarded",
]


def pytest_configure(config: pytest.Config) -> None:
    """End what forks the processes of the tests; let SIGINT reach these: a shell's background jobs ignore it."""
    config.add_cleanup(_UNTIL_THE_END.close)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without collecting garbage: modules and items stay, and looking at them is half of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*SELDOM)
        gc.enable()
