"""The todo agent: the loop on the todo tools, and the way around the model when they are absent (T-06)."""

from collections.abc import Iterator
from datetime import date

import pytest
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

from tests.fixtures.logged import logged
from tests.fixtures.scripted_model import ScriptedModel, calling
from tests.graphs.gated_tools import GO, THREAD
from toolweave.graphs import build_todo_agent
from toolweave.graphs.todo_agent import TODO_TOOLS
from toolweave.nodes.agent import todo_prompt


def named(name: str) -> BaseTool:
    async def answer() -> str:
        return f"{name} did it"

    return StructuredTool.from_function(coroutine=answer, name=name, description=name)


class Servers:
    """A catalogue whose tools a test takes away and gives back."""

    def __init__(self, *names: str) -> None:
        self.names = names

    async def tools(self) -> list[BaseTool]:
        return [named(name) for name in self.names]


@pytest.fixture
def critical() -> Iterator[list[str]]:
    with logged("CRITICAL") as lines:
        yield lines


async def test_it_uses_the_todo_tools_and_no_others() -> None:
    model = ScriptedModel(turns=[calling(("create_todo", {})), "Added."])
    graph = build_todo_agent(tools=[named("brave_search"), *map(named, TODO_TOOLS)], model=model)

    result = await graph.ainvoke(GO)

    assert model.offered == [list(TODO_TOOLS)] * 2
    assert [message.text for message in result["messages"][2:]] == ["create_todo did it", "Added."]
    assert result["status"] == "done"


async def test_the_prompt_names_todays_date() -> None:
    assert "Friday, 2026-11-20" in todo_prompt(lambda: date(2026, 11, 20))

    model = ScriptedModel(turns=["hi"])
    await build_todo_agent(tools=[named("list_todos")], model=model).ainvoke(GO)

    assert model.prompts[0][0].text == todo_prompt()


@pytest.mark.parametrize(
    ("names", "answer", "status"),
    [
        (("brave_search",), "Unable to access todo database. Please try again later.", "tools_missing"),
        ((), "No MCP tools available. Unable to access todo database. Please try again later.", "no_tools"),
    ],
)
async def test_without_its_tools_it_answers_a_fixed_sentence_and_asks_no_model(
    names: tuple[str, ...], answer: str, status: str, critical: list[str]
) -> None:
    model = ScriptedModel(turns=["never"])

    result = await build_todo_agent(tools=Servers(*names), model=model).ainvoke(GO)

    assert (result["messages"][-1].text, result["status"]) == (answer, status)
    assert model.prompts == []
    assert len(critical) == 1
    assert answer in critical[0]


async def test_when_the_tools_are_back_so_is_the_agent() -> None:
    servers = Servers()
    model = ScriptedModel(turns=[calling(("list_todos", {})), "Nothing to do."])
    graph = build_todo_agent(tools=servers, model=model, checkpointer=InMemorySaver())

    before = await graph.ainvoke(GO, THREAD)
    servers.names = ("list_todos",)
    after = await graph.ainvoke(GO, THREAD)

    assert (before["status"], after["status"]) == ("no_tools", "done")
    assert after["messages"][-1].text == "Nothing to do."


def test_the_drawn_graph_has_the_edge_around_the_model() -> None:
    graph = build_todo_agent(tools=[], model=ScriptedModel(turns=[])).get_graph()

    edges = {(edge.source, edge.target): edge.data for edge in graph.edges}
    assert edges["__start__", "check_tools"] is None
    assert edges["check_tools", "call_model"] == "ready"
    assert edges["check_tools", "tools_missing"] == "missing"
    assert ("tools_missing", "__end__") in edges
    assert ("call_model", "iteration_cap") in edges
