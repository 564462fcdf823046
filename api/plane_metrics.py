"""Show a tool plane's figures to Prometheus (T-06)."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import get_args

from prometheus_client import REGISTRY
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from toolweave.servers.connections.breaker import BreakerState
from toolweave.servers.connections.current import plane_slot
from toolweave.servers.connections.observation import SECONDS, ServerFigures
from toolweave.servers.connections.plane import ToolPlane
from toolweave.servers.connections.status import ServerHealth, ServerState

PREFIX = "toolweave_mcp"
BOUNDS = (*(str(bound) for bound in SECONDS), "+Inf")


class PlaneMetrics(Collector):
    """Read a plane whenever a registry is asked; labels are names of servers, tools and outcomes alone."""

    def __init__(self, plane: ToolPlane) -> None:
        self._plane = plane

    def collect(self) -> Iterator[Metric]:
        """Give the figures of this moment."""
        yield from _states(self._plane.health())
        yield from _calls(self._plane.figures.all())


class CurrentPlaneMetrics(PlaneMetrics):
    """The same for a registry of the whole process, where only the plane in use may speak.

    Two applications in one process would otherwise give every figure twice.
    """

    def describe(self) -> Iterable[Metric]:
        """Claim no names, so that a second application can register, too."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Give the figures of this moment, while the plane is the process's own."""
        if plane_slot.holds(self._plane):
            yield from super().collect()


@contextmanager
def in_default_registry(plane: ToolPlane) -> Iterator[None]:
    """Show a plane in prometheus_client's default registry while the block runs."""
    figures = CurrentPlaneMetrics(plane)
    REGISTRY.register(figures)
    try:
        yield
    finally:
        REGISTRY.unregister(figures)


def _states(servers: dict[str, ServerHealth]) -> Iterator[Metric]:
    state = GaugeMetricFamily(
        f"{PREFIX}_server_state", "1 for the state that an MCP server is in.", labels=["server", "state"]
    )
    breaker = GaugeMetricFamily(
        f"{PREFIX}_breaker_state", "1 for the state that a server's breaker is in.", labels=["server", "state"]
    )
    tools = GaugeMetricFamily(f"{PREFIX}_server_tools", "Tools that a server offers now.", labels=["server"])
    for name, health in servers.items():
        for each in get_args(ServerState):
            state.add_metric([name, each], health["state"] == each)
        for each in get_args(BreakerState):
            breaker.add_metric([name, each], health["breaker"] == each)
        tools.add_metric([name], health["tools"])
    yield from (state, breaker, tools)


def _calls(servers: dict[str, ServerFigures]) -> Iterator[Metric]:
    calls = CounterMetricFamily(
        f"{PREFIX}_calls", "Calls that have ended, by how.", labels=["server", "tool", "outcome"]
    )
    retries = CounterMetricFamily(f"{PREFIX}_call_retries", "Attempts after the first.", labels=["server", "tool"])
    seconds = HistogramMetricFamily(
        f"{PREFIX}_call_duration_seconds", "How long answered calls took.", labels=["server", "tool"]
    )
    in_flight = GaugeMetricFamily(f"{PREFIX}_calls_in_flight", "Calls that are under way.", labels=["server"])
    for server, figures in servers.items():
        in_flight.add_metric([server], figures.in_flight)
        for tool, counted in figures.tools.items():
            for outcome, count in counted.outcomes.items():
                calls.add_metric([server, tool, outcome], count)
            retries.add_metric([server, tool], counted.retries)
            buckets = list(zip(BOUNDS, accumulate(counted.buckets), strict=True))
            seconds.add_metric([server, tool], buckets, counted.seconds)
    yield from (calls, retries, seconds, in_flight)
