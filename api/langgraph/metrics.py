"""Measure requests and collect the figures of /metrics, in a registry of this application.

Names and labels are those of the official server where it has them, so that its dashboards work.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolweave.runtime.models import TERMINAL_STATUSES, JsonObject
from toolweave.runtime.runs.engine import EngineLoad, RunEngine

METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
# The label of all paths without a route: with the paths themselves as labels, callers could fill the memory.
UNMATCHED_PATH = "unmatched"
OTHER_METHOD = "OTHER"
CLIENT_CLOSED_REQUEST = 499
LATENCY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class ServerMetrics:
    """The metrics of one application; `observe_engine` adds those of its run engine."""

    def __init__(self, *, workers: int) -> None:
        self.registry = CollectorRegistry()
        self.workers = workers
        self._requests = Counter(
            "lg_api_http_requests",
            "Answered requests by method, route and status.",
            ("method", "path", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "lg_api_http_requests_latency_seconds",
            "Seconds from a request to the end of its response; streams last as long as their runs.",
            ("method", "path"),
            buckets=LATENCY_BUCKETS,
            registry=self.registry,
        )

    @contextmanager
    def observe_engine(self, engine: RunEngine) -> Iterator[None]:
        """Include the figures of an engine until the block ends."""
        self._figures = _EngineCollector(engine, self.workers)
        self.registry.register(self._figures)
        try:
            yield
        finally:
            self.registry.unregister(self._figures)

    def prometheus_text(self, load: EngineLoad | None = None) -> bytes:
        """Return all metrics in the text format of Prometheus (media type `CONTENT_TYPE_LATEST`).

        They include the default registry of prometheus_client: process, platform, garbage collector and the metrics
        that http.app has registered.
        """
        if load is not None:
            self._figures.load = load
        return generate_latest(REGISTRY) + generate_latest(self.registry)

    def record_request(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        method = method if method in METHODS else OTHER_METHOD
        self._requests.labels(method, path, str(status)).inc()
        self._seconds.labels(method, path).observe(seconds)

    def as_json(self, engine: RunEngine, load: EngineLoad) -> JsonObject:
        """Return the figures in the JSON form of `?format=json`."""
        samples = (sample for metric in self._requests.collect() for sample in metric.samples)
        return {
            "queue": {
                "n_pending": load.pending,
                "pending_runs_wait_time_max_secs": load.longest_wait_s,
                "pending_runs_wait_time_med_secs": load.median_wait_s,
                "pending_unblocked_runs_wait_time_max_secs": load.longest_unblocked_wait_s,
                "n_running": load.running,
                "n_ended": {status: engine.ended_counts[status] for status in sorted(TERMINAL_STATUSES)},
            },
            "api": {
                "http_requests_total": [
                    {
                        "method": sample.labels["method"],
                        "path": sample.labels["path"],
                        "status": int(sample.labels["status"]),
                        "count": int(sample.value),
                    }
                    for sample in samples
                    if sample.name.endswith("_total")
                ]
            },
            "workers": {"max": self.workers, "active": load.running, "available": max(0, self.workers - load.running)},
        }


class _EngineCollector(Collector):
    """Collector that reads the figures of an engine at each scrape."""

    def __init__(self, engine: RunEngine, workers: int) -> None:
        self._engine = engine
        self._workers = workers
        # Set before each scrape.
        self.load = EngineLoad(0, 0, None, None, None)

    def collect(self) -> Iterator[Metric]:
        """Yield the current figures."""
        load = self.load
        figures: dict[str, tuple[str, float]] = {
            "lg_api_num_pending_runs": ("Runs that wait for other runs or for their start time.", load.pending),
            "lg_api_num_running_runs": ("Runs that execute.", load.running),
            "lg_api_pending_runs_wait_time_max": (
                "Seconds that the oldest waiting run has waited.",
                load.longest_wait_s or 0,
            ),
            "lg_api_workers_max": ("Runs that may execute at the same time.", self._workers),
            "lg_api_workers_active": ("Runs that execute.", load.running),
            "lg_api_workers_available": ("Runs that could start immediately.", max(0, self._workers - load.running)),
        }
        for name, (meaning, value) in figures.items():
            yield GaugeMetricFamily(name, meaning, value=value)
        ended = CounterMetricFamily(
            "lg_api_runs", "Runs that have ended since the start, by status.", labels=["status"]
        )
        for status in sorted(TERMINAL_STATUSES):
            ended.add_metric([status], self._engine.ended_counts[status])
        yield ended


class MeasureRequests:
    """ASGI middleware that measures every HTTP request under the path of its route."""

    def __init__(self, app: ASGIApp, metrics: ServerMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and record it when it has ended."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # Inner middleware answers errors, so no response means that the client disconnected.
        status = CLIENT_CLOSED_REQUEST

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        started = perf_counter()
        try:
            await self._app(scope, receive, note_status)
        finally:
            self._metrics.record_request(scope["method"], _route_template(scope), status, perf_counter() - started)


def _route_template(scope: Scope) -> str:
    """Return the path of the route that answered, ours or one of http.app."""
    route: Any = scope.get("route")
    path = getattr(route, "path", None)
    return path if isinstance(path, str) and path else UNMATCHED_PATH
