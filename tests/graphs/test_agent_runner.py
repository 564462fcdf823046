"""AgentLoop: one task in, one text out (A-02, A-03)."""

import asyncio
import threading
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI

from tests.fixtures.openai_wire import WireCall, WireTurn, openai_wire
from tests.fixtures.scripted_model import ScriptedModel, add, calling
from toolweave import AgentLoop, IterationLimitError
from toolweave.config.mcp import McpServerConfig
from toolweave.errors import ModelError
from toolweave.graphs import build_agent_loop
from toolweave.graphs.background_loop import background_loop


@pytest.mark.requirement("A-02")
async def test_runs_remember_nothing_of_each_other() -> None:
    model = ScriptedModel(turns=["one", "two"])
    loop = AgentLoop([], model, system_prompt="Be brief.")

    assert [await loop.run("first"), await loop.run("second")] == ["one", "two"]
    assert [message.text for message in model.prompts[1]] == ["Be brief.", "second"]


@pytest.mark.requirement("A-03", "D-10")
@pytest.mark.parametrize(("options", "limit"), [({}, 10), ({"max_iterations": 2}, 2)])
async def test_the_iteration_limit_is_a_runtime_error_with_the_number_in_its_text(options: Any, limit: int) -> None:
    model = ScriptedModel(turns=[calling(("add", {"a": 1, "b": 1}))])

    with pytest.raises(RuntimeError, match=rf"iteration limit: {limit} model calls") as failure:
        await AgentLoop([add], model, **options).run("never stop")

    assert isinstance(failure.value, IterationLimitError)
    assert failure.value.limit == limit
    assert len(model.prompts) == limit


@pytest.mark.parametrize("reason", ["length", "content_filter"])
async def test_an_answer_that_was_cut_short_is_an_error_and_not_an_answer(reason: str) -> None:
    cut = AIMessage("Once upon", response_metadata={"finish_reason": reason})

    with pytest.raises(ModelError, match=f"finish_reason {reason}"):
        await AgentLoop([], ScriptedModel(turns=[cut])).run("tell a story")


@pytest.mark.parametrize("task", ["", " \n"])
async def test_an_empty_task_is_refused(task: str) -> None:
    with pytest.raises(ValueError, match="empty"):
        await AgentLoop([], ScriptedModel(turns=[])).run(task)


@pytest.mark.parametrize("build", [AgentLoop, lambda tools, model: build_agent_loop(tools=tools, model=model)])
@pytest.mark.parametrize("given", [["tool"], [add, McpServerConfig(name="x", transport="stdio")], [str]], ids=repr)
def test_what_is_neither_tool_nor_connection_is_refused(given: Any, build: Any) -> None:
    with pytest.raises(TypeError, match="is neither a LangChain tool, nor a function"):
        build(given, ScriptedModel(turns=[]))


@pytest.mark.requirement("U-05")
async def test_functions_are_tools_with_their_names_parameters_and_docstrings() -> None:
    threads: list[threading.Thread] = []

    def double(n: int) -> int:
        threads.append(threading.current_thread())
        return 2 * n

    async def greet(name: str) -> str:
        """Greet someone."""
        return f"Hello {name}"

    model = ScriptedModel(turns=[calling(("double", {"n": 2}), ("greet", {"name": "Ada"})), "done"])
    functions: list[Any] = [double, greet]
    assert await AgentLoop(functions, model).run("go") == "done"

    assert model.offered[0] == ["double", "greet"]
    assert [message.text for message in model.prompts[1][-2:]] == ["4", "Hello Ada"]
    assert threads[0] is not threading.main_thread(), "the event loop is not blocked"


def test_run_sync_can_be_called_again_with_the_same_client() -> None:
    turns = [WireTurn(calls=(WireCall("add", '{"a": 1, "b": 2}'),)), WireTurn(text="three")]
    with openai_wire(turns * 2, keep_alive=True) as server:
        model = ChatOpenAI(base_url=server.base_url, api_key=lambda: "k", model="m", max_retries=0, timeout=60)
        loop = AgentLoop([add], model)

        assert [loop.run_sync("1+2?"), loop.run_sync("again")] == ["three", "three"]
        background_loop.run(model.root_async_client.close())


def test_run_sync_passes_errors_on_and_can_be_called_from_many_threads() -> None:
    async def in_threads() -> list[str]:
        loop = AgentLoop([], ScriptedModel(turns=["ok"]))
        return await asyncio.gather(*(asyncio.to_thread(loop.run_sync, str(n)) for n in range(5)))

    assert asyncio.run(in_threads()) == ["ok"] * 5
    with pytest.raises(ModelError, match="broken"):
        AgentLoop([], ScriptedModel(turns=[ModelError("broken")])).run_sync("go")


async def test_run_sync_inside_an_event_loop_is_refused_with_advice() -> None:
    with pytest.raises(RuntimeError, match=r"await loop\.run"):
        AgentLoop([], ScriptedModel(turns=["ok"])).run_sync("go")
