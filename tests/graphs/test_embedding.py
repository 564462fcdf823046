"""S-04: the graphs inside other LangChain applications."""

import subprocess
import sys
from statistics import median
from typing import Annotated, Any

import pytest
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from tests.fixtures.doc_pages import DOCS, code_blocks, run_example
from tests.fixtures.forked_python import REAL_PYTHON
from tests.fixtures.scripted_model import ScriptedModel, add, calling
from toolweave.errors import ConfigError
from toolweave.graphs import AgentLoop, build_agent_loop

pytestmark = pytest.mark.requirement("S-04")

HEAVY = (
    *("fastapi", "starlette", "uvicorn", "mcp", "fastmcp", "langchain_mcp_adapters", "sqlite3", "sqlalchemy"),
    *("trafilatura", "lxml", "langchain_openai", "openai"),
)


class HostState(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    verdict: str


def adding() -> ScriptedModel:
    return ScriptedModel(turns=[calling(("add", {"a": 1, "b": 2})), "one two three"])


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


async def test_as_a_node_of_another_graph_it_shares_messages_and_streams_its_tokens() -> None:
    async def judge(state: HostState) -> dict[str, str]:
        return {"verdict": f"{len(state['messages'])} messages"}

    host = StateGraph(HostState)
    host.add_node("agent", build_agent_loop(tools=[add], model=adding(), max_iterations=50))
    host.add_node("judge", judge)
    host.add_edge(START, "agent")
    host.add_edge("agent", "judge")
    host.add_edge("judge", END)

    stream: Any = host.compile().astream(
        {"messages": [HumanMessage("1+2?")], "verdict": ""}, stream_mode=["messages", "values"], subgraphs=True
    )
    parts = [part async for part in stream]

    tokens = [value[0].text for _, mode, value in parts if mode == "messages" and value[0].type == "AIMessageChunk"]
    assert "".join(tokens) == "one two three"
    _, _, result = parts[-1]
    assert result.keys() == {"messages", "verdict"}
    assert [message.text for message in result["messages"]] == ["1+2?", "", "3", "one two three"]
    assert result["verdict"] == "4 messages"


@pytest.mark.requirement("U-05")
def test_the_agent_loop_imports_little_more_than_langgraph() -> None:
    probe = "import sys, langgraph.graph; n = len(sys.modules); import toolweave.graphs; print(len(sys.modules) / n)"

    printed = subprocess.run([REAL_PYTHON, "-c", probe], capture_output=True, timeout=60, check=True).stdout

    assert float(printed) <= 1.4


@pytest.mark.slow
@pytest.mark.requirement("U-05")
def test_the_import_of_the_graphs_costs_at_most_1_4_times_that_of_langgraph() -> None:
    def cpu_of(module: str) -> float:
        probe = f"import time; t = time.process_time(); import {module}; print(time.process_time() - t)"
        return float(subprocess.run([REAL_PYTHON, "-c", probe], capture_output=True, timeout=60, check=True).stdout)

    pairs = [(cpu_of("toolweave.graphs"), cpu_of("langgraph.graph")) for _ in range(9)]

    ours, theirs = map(median, zip(*pairs, strict=True))
    assert ours <= 1.4 * theirs


@pytest.mark.requirement("U-05")
@pytest.mark.parametrize("tools", [len, add, None, 3, {len}, iter([len]), [3]], ids=lambda tools: type(tools).__name__)
def test_tools_of_another_type_are_refused_when_the_graph_is_built(tools: Any) -> None:
    for build in (build_agent_loop, AgentLoop):
        with pytest.raises(TypeError, match="neither a"):
            build(tools=tools, model="offline")


@pytest.mark.requirement("U-05")
@pytest.mark.parametrize(
    ("model", "error"), [(None, TypeError), (3, TypeError), ("", ConfigError), ("openai: ", ConfigError)]
)
def test_what_is_no_model_is_refused_when_the_graph_is_built(model: Any, error: type[Exception]) -> None:
    for build in (build_agent_loop, AgentLoop):
        with pytest.raises(error, match="model"):
            build(tools=[add], model=model)


LOUD = """
import sys
from loguru import logger
from toolweave import build_todo_agent
if "enabled" in sys.argv:
    logger.enable("toolweave")
print(build_todo_agent(tools=[], model="offline").invoke({"messages": [("user", "hi")]})["status"])
"""


@pytest.mark.requirement("U-05")
@pytest.mark.parametrize("log", ["enabled", "silent"])
def test_the_package_logs_only_in_programs_that_enable_its_log(log: str) -> None:
    finished = subprocess.run(
        [sys.executable, "-W", "ignore::EncodingWarning", "-c", LOUD, log],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )

    assert finished.stdout == "no_tools\n"
    assert ("the todo tools are not available" in finished.stderr) == (log == "enabled")
    assert log == "enabled" or finished.stderr == ""


@pytest.mark.requirement("U-05")
async def test_the_pages_example_runs_as_it_is_written() -> None:
    (example,) = code_blocks((DOCS / "embedding.md").read_text(encoding="utf-8"), "python")
    model = ScriptedModel(turns=[calling(("stock", {"article": "chess set"})), "There are three."])

    answer = await run_example(example, "answer", my_chat_model=model)

    assert [message.text for message in answer["messages"][1:]] == ["", "3", "There are three."]
