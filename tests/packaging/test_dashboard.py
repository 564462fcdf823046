"""The Grafana dashboard in deploy/ asks for metrics, labels and values that a real server has (S-12)."""

import json
import re
import time
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
from langgraph_sdk import get_sync_client
from prometheus_client.parser import text_string_to_metric_families

from tests.fixtures.app_server import AppProcess
from toolweave.servers.connections.observability import Outcome

pytestmark = pytest.mark.requirement("S-12")
ROOT = Path(__file__).parents[2]
APP = ROOT / "tests" / "api" / "traced_app"
BOUND_S = 60
METRIC = re.compile(r"\b(?:lg_api|toolweave|process|python)_\w+")
# Prometheus adds these to each sample.
SCRAPED = {"job", "instance"}


def expressions() -> list[str]:
    dashboard: Any = json.loads((ROOT / "deploy" / "grafana" / "dashboard.json").read_text(encoding="utf-8"))
    variables = [each["query"]["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"]
    return [*variables, *(target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ()))]


def labels_of(expression: str) -> set[str]:
    """Give the labels by which an expression selects and groups."""
    selected = re.findall(r"(\w+)(?:=~|!~|!=|=)\"", expression)
    grouped = (name.strip() for names in re.findall(r"by \(([^)]*)\)", expression) for name in names.split(","))
    return {*selected, *grouped} - SCRAPED


def selected_values(expression: str) -> set[tuple[str, str, str]]:
    """Give the values that an expression compares with: the metric, its label, and the value."""
    return {
        (metric, label, value)
        for metric, selectors in re.findall(r"(\w+)\{([^}]*)\}", expression)
        for label, operator, values in re.findall(r"(\w+)(=~|!~|!=|=)\"([^\"]*)\"", selectors)
        if label not in SCRAPED
        for value in (values.split("|") if "~" in operator else [values])
    }


def test_every_metric_label_and_value_of_the_dashboard_is_served(tmp_path: Path) -> None:
    env = {"TOOLWEAVE_MCP_CONFIG": str(APP / "mcp.jsonc"), "FIXTURES": str(ROOT / "tests" / "fixtures")}
    with AppProcess(APP / "langgraph.json", tmp_path, env) as process, httpx.Client(timeout=BOUND_S) as http:
        deadline = time.monotonic() + BOUND_S
        while http.get(f"{process.url}/health").json()["status"] != "ok":
            assert time.monotonic() < deadline, "the MCP server did not start in time"
        with get_sync_client(url=process.url) as sdk:
            sdk.runs.wait(None, "agent", input={"messages": "hello"})
        text = http.get(f"{process.url}/metrics").text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    served: dict[str, set[str]] = {}
    for sample in samples:
        served.setdefault(sample.name, set()).update(sample.labels)
    # An outcome is served after the first call that had it.
    values = {("toolweave_mcp_calls_total", "outcome", outcome) for outcome in get_args(Outcome)}
    values |= {(sample.name, label, value) for sample in samples for label, value in sample.labels.items()}
    named = {name for expression in expressions() for name in METRIC.findall(expression)}
    assert named - served.keys() == set()
    for expression in expressions():
        known = set().union(*(served[name] for name in METRIC.findall(expression)))
        assert labels_of(expression) - known == set(), expression
        assert selected_values(expression) - values == set(), expression
    # Each metric of ours is on the dashboard, but the times of creation that clients add.
    ours = {name for name in served if name.startswith(("lg_api_", "toolweave_")) and not name.endswith("_created")}
    assert ours - named == set()
