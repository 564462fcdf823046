"""A tool's server asks the user in the middle of a call: the graph asks, and issues the call anew (S-07)."""

import json
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from tests.fixtures.mcp_server import http_mcp_server
from tests.fixtures.scripted_model import ScriptedModel, calling
from tests.graphs.gated_tools import GO, requests, results
from toolweave.config.mcp import McpServerConfig
from toolweave.graphs import AgentLoop, build_agent_loop
from toolweave.graphs.agent_loop import AgentGraph
from toolweave.graphs.plane_tools import PlaneTools
from toolweave.servers.connections.plane import open_tool_plane

ASKING = str(Path(__file__).parents[1] / "fixtures" / "asking_server.py")
THREAD: Any = {"configurable": {"thread_id": "t", "run_id": "r"}}


def asking_server(log: Path, **config: Any) -> McpServerConfig:
    settings: dict[str, Any] = {"prefix": "", "timeout_s": 60, **config}
    args = (ASKING, "--log", str(log))
    return McpServerConfig(name="asking", transport="stdio", command=sys.executable, args=args, **settings)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("asking") / "log"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def catalog(log: Path) -> AsyncIterator[PlaneTools]:
    # Over HTTP the client knows to which of several calls a question belongs.
    async with http_mcp_server(ASKING, "--transport", "http", "--port", "{port}", "--log", str(log)) as server:
        config = replace(server.config, name="asking", prefix="", timeout_s=60, approve=("order",))
        async with open_tool_plane([config]) as plane:
            await plane.wait_for_servers(timeout_s=60)
            yield PlaneTools(plane)


@pytest.fixture(autouse=True)
def empty_log(log: Path) -> None:
    log.write_text("", encoding="utf-8")


def logged(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def graph_of(catalog: PlaneTools, *turns: Any, **options: Any) -> AgentGraph:
    model = ScriptedModel(turns=list(turns))
    return build_agent_loop(tools=catalog, model=model, checkpointer=InMemorySaver(), **options)


async def paused_at_questions_of(catalog: PlaneTools, *requested: Any) -> AgentGraph:
    """Run until the questions of these calls interrupt the run; the model's next answer is "ok"."""
    graph = graph_of(catalog, calling(*requested), "ok")
    assert "__interrupt__" in await graph.ainvoke(GO, THREAD)
    return graph


async def resume(graph: AgentGraph, *answers: Any) -> dict[str, Any]:
    return await graph.ainvoke(Command(resume=list(answers)), THREAD)


def response(args: Any) -> dict[str, Any]:
    return {"type": "response", "args": args}


@pytest.mark.requirement("S-07")
async def test_a_servers_question_interrupts_the_run_when_the_turns_other_calls_have_finished(
    catalog: PlaneTools, log: Path
) -> None:
    graph = graph_of(catalog, calling(("greet", {}, "g"), ("plain", {"text": "x"}, "p")), "ok")

    paused = await graph.ainvoke(GO, THREAD)

    [request] = requests(paused)
    assert request["action_request"]["action"] == "greet"
    assert request["action_request"]["args"]["message"] == "What is your name?"
    assert request["action_request"]["args"]["requestedSchema"]["type"] == "object"
    assert request["config"] == {
        "allow_ignore": True,
        "allow_respond": True,
        "allow_edit": False,
        "allow_accept": False,
    }
    assert request["description"].startswith("greet asks: What is your name?\n- value (string)")
    assert results(paused) == {"p": ("success", "x")}

    result = await resume(graph, response("Eve"))

    assert results(result) == {"p": ("success", "x"), "g": ("success", "Hello Eve")}
    assert (result["status"], result["iterations"], result["messages"][-1].text) == ("done", 2, "ok")
    assert [line["event"] for line in logged(log)].count("plain") == 1, "a finished call is not repeated"
    keys = [line["key"] for line in logged(log) if line["event"] == "greet"]
    assert keys == ["r:g", "r:g:1"], "the repeated call has another idempotency key"


async def test_questions_of_several_calls_are_put_by_one_interrupt(catalog: PlaneTools) -> None:
    graph = graph_of(catalog, calling(("greet", {}, "g"), ("trip", {"to": "Rome"}, "t")), "ok")

    questions = requests(await graph.ainvoke(GO, THREAD))
    assert [request["action_request"]["action"] for request in questions] == ["greet", "trip"]
    hotel = requests(await resume(graph, response({"value": "Eve"}), response("3")))
    assert [request["action_request"]["args"]["message"] for request in hotel] == ["Which hotel?"]
    result = await resume(graph, response("Ritz"))

    assert results(result) == {"g": ("success", "Hello Eve"), "t": ("success", "3 days in Rome, Ritz")}


@pytest.mark.parametrize("word", ["ignore", "reject"])
async def test_a_question_that_is_ignored_is_declined(catalog: PlaneTools, word: str) -> None:
    graph = await paused_at_questions_of(catalog, ("greet", {}, "g"))

    assert results(await resume(graph, {"type": word})) == {"g": ("success", "Hello decline")}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (response("many"), "integer"),
        (response({"value": "3"}), "integer"),
        (response({"days": 3}), "there is no field 'days'"),
        (response({}), "value"),
        (response({"value": {"a": 1}}), "no plain value"),
        ({"type": "accept"}, "value"),
        ({"type": "edit", "args": {"value": 3}}, "edit does not apply"),
        ("3", "its type is '3'"),
    ],
)
async def test_after_an_answer_that_does_not_fit_the_question_is_repeated(
    catalog: PlaneTools, log: Path, answer: Any, problem: str
) -> None:
    graph = await paused_at_questions_of(catalog, ("trip", {"to": "Rome"}, "t"))

    [again] = requests(await graph.ainvoke(Command(resume=[answer]), THREAD))

    assert problem in again["description"]
    assert again["action_request"]["args"]["message"] == "How many days in Rome?"
    assert len(logged(log)) == 1, "nothing was issued"
    [hotel] = requests(await resume(graph, response({"value": 3})))
    assert hotel["action_request"]["args"]["message"] == "Which hotel?"


async def test_an_approved_call_stays_approved_when_it_is_issued_anew(catalog: PlaneTools, log: Path) -> None:
    graph = graph_of(catalog, calling(("order", {}, "o")), "ok")

    [approval] = requests(await graph.ainvoke(GO, THREAD))
    assert approval["action_request"] == {"action": "order", "args": {}}
    assert logged(log) == []
    [question] = requests(await resume(graph, {"type": "accept"}))
    assert "\n- size (" in question["description"]
    result = await resume(graph, response('{"size": "large"}'))

    assert results(result) == {"o": ("success", "1 large")}, "a default is filled in"


@pytest.mark.parametrize("few_steps", [{}, {"recursion_limit": 6}])
async def test_a_server_that_never_stops_asking_gets_no_more_than_20_answers(
    catalog: PlaneTools, few_steps: dict[str, int]
) -> None:
    graph = graph_of(catalog, calling(("restless", {}, "r")), "ok", max_iterations=2)
    config: Any = {**THREAD, **few_steps}

    result = await graph.ainvoke(GO, THREAD)
    rounds = 0
    while "__interrupt__" in result:
        rounds += 1
        result = await graph.ainvoke(Command(resume=[response("x")]), config)

    assert rounds == 20
    status, text = results(result)["r"]
    assert (status, "after 20 answers" in text) == ("error", True)
    assert result["status"] == "done"


async def test_a_tool_that_may_not_be_called_twice_ends_with_an_explanation(catalog: PlaneTools, log: Path) -> None:
    result = await graph_of(catalog, calling(("wipe", {}, "w")), "ok").ainvoke(GO, THREAD)

    status, text = results(result)["w"]
    assert (status, "Really?" in text, '"elicit": true' in text) == ("error", True, True)
    assert len(logged(log)) == 1


async def test_a_server_whose_entry_says_that_it_asks_may_be_called_again(log: Path) -> None:
    async with open_tool_plane([asking_server(log, elicit=True)]) as plane:
        await plane.wait_for_servers(timeout_s=60)
        graph = graph_of(PlaneTools(plane), calling(("wipe", {}, "w")), "ok")

        await graph.ainvoke(GO, THREAD)
        result = await resume(graph, response("yes"))

    assert results(result) == {"w": ("success", "wiped: True")}


async def test_the_agent_loop_of_one_task_answers_no_question(log: Path) -> None:
    model = ScriptedModel(turns=[calling(("greet", {}, "g"), ("order", {}, "o")), "No."])

    assert await AgentLoop([asking_server(log, approve=("order",))], model).run("greet me") == "No."
    errors = {message.text for message in model.prompts[1] if message.type == "tool"}
    assert any("No user can answer here" in text for text in errors)
    assert any("nobody can be asked" in text for text in errors)
    assert [line["event"] for line in logged(log)] == ["greet", "greeted"]


async def test_a_new_message_instead_of_an_answer_drops_the_question(catalog: PlaneTools) -> None:
    graph = await paused_at_questions_of(catalog, ("greet", {}, "g"))

    result = await graph.ainvoke(
        {"messages": [HumanMessage("forget it")]}, {"configurable": {"thread_id": "t", "run_id": "another"}}
    )

    assert "instead of an answer" in results(result)["g"][1]
    state = await graph.aget_state(THREAD)
    assert (state.next, state.values["waiting_calls"]) == ((), [])


async def test_going_back_to_a_question_asks_it_again_and_takes_another_answer(catalog: PlaneTools) -> None:
    graph = await paused_at_questions_of(catalog, ("greet", {}, "g"))
    waiting = (await graph.aget_state(THREAD)).config
    first = await resume(graph, response("Eve"))

    paused = await graph.ainvoke(None, waiting)
    assert len(requests(paused)) == 1
    second = await resume(graph, response("Bob"))

    assert (results(first)["g"][1], results(second)["g"][1]) == ("Hello Eve", "Hello Bob")
