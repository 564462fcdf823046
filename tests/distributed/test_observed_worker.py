"""A worker continues the trace and the log of the request that another process received (S-12)."""

import json
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_sync_client

from tests.fixtures.app_server import AppProcess
from tests.fixtures.otlp_collector import collecting
from tests.fixtures.postgres import PostgresServer

pytestmark = [pytest.mark.requirement("S-12"), pytest.mark.timeout(300)]
LANGGRAPH_JSON = Path(__file__).parents[1] / "api" / "langgraph" / "usage_app" / "langgraph.json"
TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_a_run_of_a_worker_has_the_trace_ids_and_tokens_of_its_request(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    with postgres.fresh_database() as database, collecting() as collector:
        env = {
            "TOOLWEAVE_DATABASE_URL": database.replace("+psycopg", ""),
            "TOOLWEAVE_LOG_FORMAT": "json",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_BSP_SCHEDULE_DELAY": "20",
        }
        replica = AppProcess(LANGGRAPH_JSON, tmp_path / "replica", env, command=("serve", "--no-worker"))
        worker = AppProcess(LANGGRAPH_JSON, tmp_path / "worker", env, command=("worker",))
        headers = {"x-request-id": "request-1", "traceparent": f"00-{TRACE_ID}-{SPAN_ID}-01"}
        with replica, worker, get_sync_client(url=replica.url, headers=headers) as sdk:
            thread_id = sdk.threads.create()["thread_id"]
            messages: Any = {"messages": "hello"}
            runs: list[Any] = []
            for graph in ("log", "nested"):
                runs.append(sdk.runs.create(thread_id, graph, input=messages))
                sdk.runs.join(thread_id, runs[-1]["run_id"])
            ended: Any = sdk.runs.get(thread_id, runs[-1]["run_id"])
            assert ended["metadata"]["usage"] == {"input_tokens": 21, "output_tokens": 6, "total_tokens": 27}
            roots = [span for span in collector.trace_of(runs[-1]["run_id"]) if span.name.startswith("run ")]
            assert {(span.trace_id, span.parent_id) for span in roots} == {(TRACE_ID, SPAN_ID)}
            worker.wait_for_log("a line of a thread")
            lines = [json.loads(line) for line in worker.logs().splitlines() if "a line of a" in line]
        names = ("run_id", "thread_id", "assistant_id")
        expected = {**{name: runs[0][name] for name in names}, "request_id": "request-1", "graph_id": "log"}
        assert len(lines) == 2
        assert all(line.items() >= expected.items() for line in lines)
