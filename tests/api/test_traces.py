"""Each run is one trace at an OpenTelemetry collector, without texts, and a dead collector changes nothing (S-12)."""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from langgraph_sdk import get_sync_client

from tests.api.traced_app.traced_graphs import SECRET
from tests.fixtures.app_server import AppProcess
from tests.fixtures.mcp_server import free_port
from tests.fixtures.otlp_collector import BOUND_S, Collector, ReceivedSpan, collecting

pytestmark = pytest.mark.requirement("S-12")
APP = Path(__file__).parent / "traced_app"
DOCUMENTATION = (Path(__file__).parents[2] / "docs" / "observability.md").read_text(encoding="utf-8")
ENV = {
    "TOOLWEAVE_MCP_CONFIG": str(APP / "mcp.jsonc"),
    "FIXTURES": str(Path(__file__).parents[1] / "fixtures"),
    "OTEL_BSP_SCHEDULE_DELAY": "20",
}
TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE_ID}-{SPAN_ID}-01"


@contextmanager
def serving(data_dir: Path, env: Mapping[str, str]) -> Iterator[AppProcess]:
    with AppProcess(APP / "langgraph.json", data_dir, {**ENV, **env}) as process:
        deadline = time.monotonic() + BOUND_S
        while httpx.get(f"{process.url}/health", timeout=BOUND_S).json()["status"] != "ok":
            assert time.monotonic() < deadline, "the MCP server did not start in time"
        yield process


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as opened:
        yield opened


@pytest.fixture(scope="module")
def process(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppProcess]:
    with serving(tmp_path_factory.mktemp("traced"), {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}) as started:
        yield started


def run(process: AppProcess, graph: str, **headers: str) -> str:
    """Run a graph on a new thread; gives the run's id."""
    with get_sync_client(url=process.url) as sdk:
        thread_id = sdk.threads.create()["thread_id"]
        created = sdk.runs.create(thread_id, graph, input={"messages": SECRET}, headers=headers)
        sdk.runs.join(thread_id, created["run_id"])
        return str(created["run_id"])


def path(span: ReceivedSpan, spans: list[ReceivedSpan]) -> list[str]:
    """Name a span and its parents, the outermost first."""
    parents = {each.span_id: each for each in spans}
    names = [span.name]
    while (parent := parents.get(span.parent_id)) is not None:
        span = parent
        names.insert(0, span.name)
    return names


def test_a_run_is_one_trace_of_its_nodes_model_calls_tools_and_mcp_calls(
    process: AppProcess, collector: Collector
) -> None:
    run_id = run(process, "agent")
    spans = collector.trace_of(run_id)
    paths = [path(span, spans) for span in spans]
    graph = ["run agent", "agent_loop"]
    for expected in (
        ["run agent"],
        [*graph, "call_model", "ScriptedModel"],
        [*graph, "tools", "meta", "tools/call meta"],
        [*graph, "tools", "fail", "tools/call fail"],
    ):
        assert expected in paths
    assert all(names[0] == "run agent" for names in paths)
    root = next(span for span in spans if span.name == "run agent")
    assert root.parent_id == ""
    assert root.attributes["toolweave.graph_id"] == root.attributes["gen_ai.agent.name"] == "agent"
    assert root.attributes["session.id"] == root.attributes["toolweave.thread_id"]
    assert root.attributes["toolweave.run_status"] == "success"
    assert {span.resource["service.name"] for span in spans} == {"toolweave"}


def test_each_run_has_its_own_trace_also_behind_another_one_of_its_thread(
    process: AppProcess, collector: Collector
) -> None:
    with get_sync_client(url=process.url) as sdk:
        thread_id = sdk.threads.create()["thread_id"]
        created = [sdk.runs.create(thread_id, "nested", input={"messages": SECRET}) for _ in range(3)]
        sdk.runs.join(thread_id, created[-1]["run_id"])
    traces = [collector.trace_of(run["run_id"]) for run in created]
    assert len({trace[0].trace_id for trace in traces}) == len(traces)
    assert all(sum(span.name == "run nested" for span in trace) == 1 for trace in traces)
    # Neither do requests, such as those of /health, begin any.
    assert {span.name.partition(" ")[0] for span in collector.spans if not span.parent_id} == {"run"}


def test_no_span_quotes_messages_arguments_results_or_errors(process: AppProcess, collector: Collector) -> None:
    for graph in ("agent", "nested", "fail"):
        spans = collector.trace_of(run(process, graph))
        assert [span for span in spans if SECRET in span.text] == []


async def test_requests_with_a_trace_send_no_urls_arguments_or_errors(
    process: AppProcess, collector: Collector
) -> None:
    headers = {"traceparent": TRACEPARENT}
    async with httpx.AsyncClient(base_url=process.url, headers=headers, timeout=BOUND_S) as http:
        assert (await http.get("/v1/models", params={"api_key": SECRET})).status_code == 200
    async with Client(StreamableHttpTransport(f"{process.url}/ai/mcp", headers)) as core:
        assert (await core.call_tool("read_file", {"path": {SECRET: 1}}, raise_on_error=False)).is_error
    spans = collector.trace_of(run(process, "nested", **headers))
    assert [span for span in collector.spans if SECRET in span.text] == []
    assert {path(span, spans)[0] for span in spans} == {"run nested"}


def cancel_in_model_call(process: AppProcess) -> str:
    """Cancel a run while its model works; gives the run's id."""
    with get_sync_client(url=process.url) as sdk:
        thread_id = sdk.threads.create()["thread_id"]
        started = sdk.runs.stream(thread_id, "cancelled", input={"messages": SECRET}, stream_mode="custom")
        run_id = str(next(part.data["run_id"] for part in started if part.event == "metadata"))
        assert any(part.event == "custom" for part in started)
        sdk.runs.cancel(thread_id, run_id, wait=True)
    return run_id


def test_cancelled_model_calls_and_closed_streams_have_a_span(process: AppProcess, collector: Collector) -> None:
    for run_id, expected in (
        (cancel_in_model_call(process), ["run cancelled", "cancelled", "hang", "HangingModel"]),
        (run(process, "closed"), ["run closed", "closed", "close_stream", "CountingModel"]),
    ):
        spans = collector.trace_of(run_id)
        [called] = [span for span in spans if span.name.endswith("Model")]
        assert path(called, spans) == expected
        assert (called.attributes["error.type"], called.status) in (("CancelledError", 2), ("GeneratorExit", 2))
        assert called.attributes["openinference.span.kind"] == "LLM"
        assert SECRET not in called.text


def count_traced_calls(process: AppProcess) -> str:
    with get_sync_client(url=process.url) as sdk:
        values: Any = sdk.runs.wait(None, "count", input={"messages": SECRET})
    return str(values["messages"][-1]["content"])


def test_cancelled_model_calls_leave_nothing_in_memory(process: AppProcess) -> None:
    before = count_traced_calls(process)
    for _ in range(3):
        cancel_in_model_call(process)
    assert count_traced_calls(process) == before


def test_failures_of_tools_nodes_and_runs_have_an_error_type(process: AppProcess, collector: Collector) -> None:
    failed = next(span for span in collector.trace_of(run(process, "agent")) if span.name == "tools/call fail")
    assert (failed.attributes["error.type"], failed.status) == ("tool_error", 2)
    spans = {span.name: span for span in collector.trace_of(run(process, "fail"))}
    for name in ("raising", "fail", "run fail"):
        assert (spans[name].attributes["error.type"], spans[name].status) == ("LookupError", 2)


def test_a_model_call_has_its_tokens_in_the_genai_conventions(process: AppProcess, collector: Collector) -> None:
    called = [span for span in collector.trace_of(run(process, "nested")) if span.name.endswith("Model")]
    assert len(called) == 3
    for span in called:
        assert span.attributes["gen_ai.operation.name"] == "chat"
        assert span.attributes["gen_ai.usage.input_tokens"] == "7"


def test_a_run_continues_the_trace_of_its_request(process: AppProcess, collector: Collector) -> None:
    run_id = run(process, "nested", traceparent=TRACEPARENT)
    root = next(span for span in collector.trace_of(run_id) if span.name == "run nested")
    assert (root.trace_id, root.parent_id) == (TRACE_ID, SPAN_ID)


@pytest.mark.parametrize(
    ("env", "headers"),
    [({}, {"traceparent": TRACEPARENT[:-2] + "00"}), ({"OTEL_TRACES_SAMPLER": "always_off"}, {})],
    ids=["its request", "a setting"],
)
def test_a_run_that_is_not_sampled_sends_and_logs_nothing(
    env: dict[str, str], headers: dict[str, str], tmp_path: Path
) -> None:
    with collecting() as collector:
        with serving(tmp_path, {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, **env}) as process:
            run(process, "agent", **headers)
            assert process.stop() == 0
        assert collector.spans == []
    assert "Error in" not in process.logs()


def documented(target: str, collector: Collector) -> dict[str, str]:
    """Read a target's variables from the documentation; the collector stands in for its host."""
    block = DOCUMENTATION.partition(f"### {target}\n")[2].partition("```bash\n")[2].partition("```")[0]
    variables = dict(line.split("=", 1) for line in block.splitlines())
    url = urlsplit(variables["OTEL_EXPORTER_OTLP_ENDPOINT"])
    return {**variables, "OTEL_EXPORTER_OTLP_ENDPOINT": f"{collector.url}{url.path}"}


@pytest.mark.parametrize(
    ("target", "path", "headers", "attributes"),
    [
        ("LangSmith", "/otel", {"x-api-key": "lsv2_key", "langsmith-project": "agents"}, {}),
        ("Langfuse", "/api/public/otel", {"authorization": "Basic cGs6c2s=", "x-langfuse-ingestion-version": "4"}, {}),
        ("Phoenix", "", {"authorization": "Bearer phoenix-key"}, {"openinference.project.name": "agents"}),
    ],
)
def test_a_documented_target_receives_its_headers_at_its_path(
    target: str, path: str, headers: dict[str, str], attributes: dict[str, str], tmp_path: Path
) -> None:
    with collecting() as collector:
        env = {**documented(target, collector), "OTEL_SERVICE_NAME": "my-agents"}
        with serving(tmp_path, env) as process:
            spans = collector.trace_of(run(process, "nested"))
        assert set(collector.paths) == {f"{path}/v1/traces"}
        assert all(received.items() >= headers.items() for received in collector.headers)
        assert collector.headers[0]["content-type"] == "application/x-protobuf"
        assert spans[0].resource.items() >= {"service.name": "my-agents", **attributes}.items()


def test_a_setting_adds_the_content(tmp_path: Path) -> None:
    with collecting() as collector:
        env = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.url}/t", "TOOLWEAVE_OTEL_CONTENT": "true"}
        with serving(tmp_path, env) as process:
            spans = collector.trace_of(run(process, "fail"))
        named = {span.name: span for span in spans}
        assert SECRET in named["CountingModel"].attributes["gen_ai.input.messages"]
        assert SECRET in named["raising"].text
        assert named["lookup"].attributes["key"] == SECRET
        assert named["raising"].attributes["error.type"] == "LookupError"
        assert set(collector.paths) == {"/t"}


def test_a_dead_collector_changes_nothing_but_one_log_line(tmp_path: Path) -> None:
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://user:password@127.0.0.1:{free_port()}",
        # One attempt per batch.
        "OTEL_EXPORTER_OTLP_TIMEOUT": "0.5",
    }
    with serving(tmp_path, env) as process, get_sync_client(url=process.url) as sdk:
        for _ in range(3):
            thread_id = sdk.threads.create()["thread_id"]
            values = sdk.runs.wait(thread_id, "nested", input={"messages": SECRET})
            assert isinstance(values, dict)
            process.wait_for_log("traces cannot be sent")
        assert process.stop() == 0
    telling = ("traces ", "telemetry", "export", "ERROR")
    [line] = [line for line in process.logs().splitlines() if any(word in line for word in telling)]
    assert "Runs continue without them" in line
    assert "password" not in process.logs()


SCRIPT = """
import sys
import toolweave.api.app, toolweave.cli.commands, toolweave.api.langgraph.app, toolweave.api.langgraph.services
print(*(name for name in sys.modules if name.startswith(("opentelemetry.exporter", "openinference"))))
"""


def test_a_server_without_an_endpoint_imports_no_telemetry() -> None:
    found = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, encoding="utf-8", check=True)
    assert found.stdout.split() == []
