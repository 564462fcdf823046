"""S-04: the graphs inside other LangChain applications."""

import subprocess
import sys
from typing import Annotated, Any

import pytest
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from tests.fixtures.scripted_model import ScriptedModel, add, calling
from toolweave.graphs import build_agent_loop

pytestmark = pytest.mark.requirement("S-04")

HEAVY = (
    *("fastapi", "starlette", "uvicorn", "mcp", "fastmcp", "langchain_mcp_adapters", "sqlite3", "sqlalchemy"),
    *("trafilatura", "lxml"),
)


class HostState(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    verdict: str


def adding() -> ScriptedModel:
    return ScriptedModel(turns=[calling(("add", {"a": 1, "b": 2})), "three"])


def test_importing_the_graphs_loads_no_web_stack_no_database_and_no_mcp() -> None:
    probe = f"""
import sys, importlib
for module in ("toolweave", "toolweave.graphs", "toolweave.graphs.served", "toolweave.graphs.script_generation"):
    importlib.import_module(module)
    print(module, [name for name in {HEAVY!r} if name in sys.modules], "langgraph" in sys.modules)
"""

    finished = subprocess.run(
        # A library that is loaded with JSONPaths asks for the locale's encoding, once.
        [sys.executable, "-W", "ignore::EncodingWarning", "-c", probe],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )

    assert finished.stderr == ""
    assert finished.stdout.splitlines() == [
        "toolweave [] False",
        "toolweave.graphs [] True",
        "toolweave.graphs.served [] True",
        "toolweave.graphs.script_generation [] True",
    ]


async def test_the_graph_is_a_node_of_another_graph_and_shares_its_messages() -> None:
    async def judge(state: HostState) -> dict[str, str]:
        return {"verdict": f"{len(state['messages'])} messages"}

    host = StateGraph(HostState)
    host.add_node("agent", build_agent_loop(tools=[add], model=adding(), max_iterations=50))
    host.add_node("judge", judge)
    host.add_edge(START, "agent")
    host.add_edge("agent", "judge")
    host.add_edge("judge", END)

    result = await host.compile().ainvoke({"messages": [HumanMessage("1+2?")], "verdict": ""})

    assert result.keys() == {"messages", "verdict"}
    assert [message.text for message in result["messages"]] == ["1+2?", "", "3", "three"]
    assert result["verdict"] == "4 messages"


async def test_tokens_of_an_embedded_graph_reach_the_hosts_stream() -> None:
    host = StateGraph(HostState)
    host.add_node("agent", build_agent_loop(tools=[], model=ScriptedModel(turns=["a b c"])))
    host.add_edge(START, "agent")

    stream: Any = host.compile().astream(
        {"messages": [HumanMessage("go")], "verdict": ""}, stream_mode="messages", subgraphs=True
    )
    parts = [part async for _, part in stream]

    assert "".join(message.text for message, _ in parts) == "a b c"


def test_a_synchronous_call_is_refused_with_the_way_out() -> None:
    with pytest.raises(TypeError, match="async"):
        build_agent_loop(tools=[add], model=adding()).invoke({"messages": [HumanMessage("1+2?")]})
