"""Graphs, histories and runs in the studio, in headless Chromium against the real server (S-11)."""

from pathlib import Path

import pytest

from tests.clients.javascript import Javascript, scenarios

LANGGRAPH_JSON = Path(__file__).parent / "app" / "studio.json"
pytestmark = [
    pytest.mark.requirement("S-11"),
    pytest.mark.timeout(360),
    pytest.mark.databases("sqlite", reason="the page is tested; the other modules here test the API on each database"),
    pytest.mark.slow,
]


@pytest.mark.parametrize(("script", "scenario"), scenarios("studio_graph.mjs"))
def test_graphs(script: str, scenario: str, javascript: Javascript) -> None:
    javascript.check(script, scenario)


@pytest.mark.parametrize(("script", "scenario"), scenarios("studio_history.mjs"))
def test_histories(script: str, scenario: str, javascript: Javascript) -> None:
    javascript.check(script, scenario)


@pytest.mark.parametrize(("script", "scenario"), scenarios("studio_runs.mjs"))
def test_runs(script: str, scenario: str, javascript: Javascript) -> None:
    javascript.check(script, scenario)
