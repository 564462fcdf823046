"""`toolweave graph`: what a graph looks like, without running it."""

from pathlib import Path
from typing import Any

import pytest
from langgraph.errors import NodeError
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command
from typing_extensions import TypedDict

from tests.cli.command import SAMPLE_APP, toolweave
from toolweave.api.langgraph.graph_description import without_error_handlers
from toolweave.cli.graph import graph_text


class State(TypedDict):
    n: int


def test_a_graph_is_listed_node_by_node_with_where_each_leads(tmp_path: Path) -> None:
    ended = toolweave("graph", "approves", "--config", str(SAMPLE_APP), cwd=tmp_path)
    assert ended.code == 0
    assert ended.stdout.splitlines() == [
        "approves",
        "  __start__",
        "    → call",
        "  call",
        "    → approve",
        "  approve",
        "    → __end__",
        "  __end__",
    ]


def test_a_factory_is_drawn_too_and_as_mermaid(tmp_path: Path) -> None:
    ended = toolweave("graph", "counts", "--format", "mermaid", "--config", str(SAMPLE_APP), cwd=tmp_path)
    assert ended.code == 0
    assert "graph TD;" in ended.stdout
    assert "__start__ --> increase;" in ended.stdout


def test_without_a_name_the_graphs_are_listed(tmp_path: Path) -> None:
    ended = toolweave("graph", "--config", str(SAMPLE_APP), cwd=tmp_path)
    assert ended.stdout.splitlines()[0] == "echo  Says it again"


@pytest.mark.parametrize(("name", "fix"), [("ehco", "Did you mean 'echo'?"), ("x", "Known: echo, asks, ")])
def test_an_unknown_name_is_answered_with_the_nearest_or_all_known_ones(name: str, fix: str, tmp_path: Path) -> None:
    ended = toolweave("graph", name, "--config", str(SAMPLE_APP), cwd=tmp_path)
    assert ended.code == 1
    assert f"there is no graph {name!r}. {fix}" in ended.paragraph


def test_the_todo_agent_is_drawn_where_there_is_no_langgraph_json(elsewhere: Path) -> None:
    ended = toolweave("graph", "todo_agent", cwd=elsewhere)
    assert ended.code == 0, ended.stderr
    assert "  check_tools\n    ⇢ call_model  when ready\n    ⇢ tools_missing  when missing\n" in ended.stdout


def test_conditions_are_named_and_error_handlers_are_no_boxes() -> None:
    drawn = _with_handler().get_graph()
    assert any("__error_handler__" in node.name for node in drawn.nodes.values())
    text = graph_text("g", without_error_handlers(drawn))
    assert "__error_handler__" not in text
    assert "    ⇢ work  when again\n" in text


def _with_handler() -> Any:
    def work(state: State) -> State:
        return state

    def handle(_state: State, error: NodeError) -> Command[Any]:
        return Command(goto=END, update={"n": len(str(error.error))})

    graph = StateGraph(State)
    graph.add_node("work", work, error_handler=handle)
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", lambda _state: "stop", {"again": "work", "stop": END})
    return graph.compile()
