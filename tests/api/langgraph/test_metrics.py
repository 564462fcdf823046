"""/metrics shows what the server does, for Prometheus and as JSON (langgraph_api.md 2.7)."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from prometheus_client import REGISTRY, Counter
from prometheus_client.parser import text_string_to_metric_families

from tests.api.langgraph.steering import new_thread, run_at_gate
from toolweave.api.langgraph.metrics import ServerMetrics

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
SERVER_ENV = {"TOOLWEAVE_MAX_CONCURRENT_RUNS": "1"}
pytestmark = pytest.mark.databases("sqlite", "postgresql", reason="requests are counted by each process for itself")

Sample = tuple[str, frozenset[tuple[str, str]]]


async def samples(http: httpx.AsyncClient) -> dict[Sample, float]:
    answer = await http.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=1.0.0; charset=utf-8"
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def requests(found: dict[Sample, float], method: str, path: str, status: str) -> float:
    labels = frozenset({"method": method, "path": path, "status": status}.items())
    return found.get(("lg_api_http_requests_total", labels), 0)


def figure(found: dict[Sample, float], name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


@pytest.mark.api("GET /metrics", "200 counts and times requests by route and status, never by path")
async def test_requests_are_counted_under_their_routes(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    before = await samples(http)
    thread_id = await new_thread(sdk)
    for path in (f"/threads/{thread_id}", f"/threads/{uuid4()}", "/threads/zz", "/greeting", "/gates/a/never/b"):
        await http.get(path)
    await http.request("PROPFIND", "/ok")
    after = await samples(http)
    counted = [
        ("GET", "/threads/{thread_id}", "200"),
        ("GET", "/threads/{thread_id}", "404"),
        ("GET", "/threads/{thread_id}", "422"),
        ("GET", "/greeting", "200"),
        ("GET", "unmatched", "404"),
        ("POST", "/threads", "200"),
        ("OTHER", "/ok", "405"),
    ]
    assert [requests(after, *request) - requests(before, *request) for request in counted] == [1] * len(counted)
    assert thread_id not in str(after)
    timed = figure(after, "lg_api_http_requests_latency_seconds_count", method="GET", path="/threads/{thread_id}")
    assert timed == sum(requests(after, "GET", "/threads/{thread_id}", status) for status in ("200", "404", "422"))


@pytest.mark.api("GET /metrics", "200 shows runs that wait, execute and have ended, and what workers are free")
async def test_runs_are_counted_while_they_wait_run_and_end(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    before = await samples(http)
    first, second = await new_thread(sdk), await new_thread(sdk)
    running, gate = await run_at_gate(sdk, http, first)
    queued = [await sdk.runs.create(thread, "steps", input={"n": 1}) for thread in (first, second, second)]
    delayed = await sdk.runs.create(second, "steps", input={"n": 1}, after_seconds=3600)

    shown: Any = (await http.get("/metrics", params={"format": "json"})).json()
    queue = shown["queue"]
    assert (queue["n_pending"], queue["n_running"]) == (4, 1)
    longest = queue["pending_runs_wait_time_max_secs"]
    assert longest >= queue["pending_runs_wait_time_med_secs"] >= 0
    # The first run of the free thread waits for the worker only.
    assert longest >= queue["pending_unblocked_runs_wait_time_max_secs"] >= 0
    assert shown["workers"] == {"max": 1, "active": 1, "available": 0}
    text = await samples(http)
    names = ("lg_api_num_pending_runs", "lg_api_num_running_runs", "lg_api_workers_max", "lg_api_workers_available")
    assert [figure(text, name) for name in names] == [4, 1, 1, 0]

    await sdk.runs.cancel(second, delayed["run_id"], wait=True)
    await http.post(f"/gates/{gate}/open")
    for run in queued:
        await sdk.runs.join(run["thread_id"], run["run_id"])
    await sdk.runs.join(first, running)
    await sdk.runs.wait(first, "broken", input={"n": 1}, raise_error=False)
    after = await samples(http)
    for status, ended in (("success", 4), ("interrupted", 1), ("error", 1)):
        name = "lg_api_runs_total"
        assert figure(after, name, status=status) - figure(before, name, status=status) == ended
    rested: Any = (await http.get("/metrics?format=json")).json()
    assert (rested["queue"]["n_pending"], rested["queue"]["n_running"]) == (0, 0)
    assert rested["queue"]["pending_runs_wait_time_max_secs"] is None
    assert rested["workers"] == {"max": 1, "active": 0, "available": 1}


@pytest.mark.api("GET /metrics", "200 gives the same figures as JSON with format=json")
async def test_requests_are_listed_as_json(http: httpx.AsyncClient) -> None:
    await http.get("/greeting")
    answer = await http.get("/metrics?format=json")
    assert answer.headers["content-type"] == "application/json"
    counted: list[Any] = answer.json()["api"]["http_requests_total"]
    (greeting,) = [entry for entry in counted if entry["path"] == "/greeting"]
    assert (greeting["method"], greeting["status"]) == ("GET", 200)
    assert greeting["count"] == requests(await samples(http), "GET", "/greeting", "200")


@pytest.mark.api("GET /metrics", "422 refuses a format that is none")
async def test_another_format_is_refused(http: httpx.AsyncClient) -> None:
    assert (await http.get("/metrics?format=xml")).status_code == 422


def test_metrics_of_the_application_are_shown_and_those_of_every_registry_only_once() -> None:
    metrics = ServerMetrics(workers=1)
    counter = Counter("answers_of_the_application", "Answers.")
    counter.inc(42)
    try:
        text = metrics.prometheus_text().decode()
    finally:
        REGISTRY.unregister(counter)
    types = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")]
    assert "answers_of_the_application_total 42.0" in text
    assert {"process_cpu_seconds_total", "python_gc_objects_collected_total", "python_info"} <= set(types)
    assert len(types) == len(set(types))
    assert "answers_of_the_application" not in metrics.prometheus_text().decode()
