"""A person approves tool calls before they run (S-07)."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Send

from tests.fixtures.scripted_model import ScriptedModel, calling
from tests.graphs.gated_tools import GO, THREAD, Desk, calls, requests, results
from toolweave.graphs import build_agent_loop
from toolweave.graphs.agent_loop import AgentGraph

ERASE = ("erase", {"path": "a"}, "e")
MOVE = ("move", {"path": "b", "to": "c"}, "m")
LOOK = ("look", {"path": "d"}, "l")


def edit(args: Any) -> list[dict[str, Any]]:
    return [{"type": "edit", "args": args}]


@pytest.mark.requirement("S-07")
async def test_the_run_stops_before_any_tool_of_the_turn_and_sends_one_interrupt_for_all_that_need_approval() -> None:
    desk = Desk()

    paused = await desk.graph(calling(LOOK, ERASE, MOVE), "ok").ainvoke(GO, THREAD)

    assert desk.ran == []
    assert requests(paused) == [
        {
            "action_request": {"action": "erase", "args": {"path": "a"}},
            "config": {"allow_ignore": True, "allow_respond": True, "allow_edit": True, "allow_accept": True},
            "description": 'The agent wants to call erase with {"path": "a"}',
        },
        {
            "action_request": {"action": "move", "args": {"path": "b", "to": "c"}},
            "config": {"allow_ignore": True, "allow_respond": True, "allow_edit": True, "allow_accept": True},
            "description": 'The agent wants to call move with {"path": "b", "to": "c"}',
        },
    ]


async def resumed(desk: Desk, decisions: Any, *requested: Any) -> dict[str, Any]:
    """Run until these calls wait for approval, and resume the run with these decisions."""
    graph = await desk.paused_at(*requested)
    return await graph.ainvoke(Command(resume=decisions), THREAD)


@pytest.mark.parametrize("word", ["accept", "approve"])
@pytest.mark.requirement("S-07")
async def test_approved_calls_run_as_requested_beside_those_that_need_no_approval(word: str) -> None:
    desk = Desk()

    result = await resumed(desk, [{"type": word}, {"type": word, "args": None}], LOOK, ERASE, MOVE)

    assert sorted(desk.ran) == [("erase", ERASE[1]), ("look", LOOK[1]), ("move", MOVE[1])]
    assert results(result) == {call_id: ("success", f"{name} done") for name, _, call_id in (LOOK, ERASE, MOVE)}
    assert (result["status"], result["iterations"], result["messages"][-1].text) == ("done", 2, "ok")


@pytest.mark.parametrize(
    ("decision", "ran", "expected"),
    [
        ("approve", [ERASE[:2]], ("success", "erase done")),
        ("accept", [ERASE[:2]], ("success", "erase done")),
        (["approve"], [ERASE[:2]], ("success", "erase done")),
        ({"type": "accept"}, [ERASE[:2]], ("success", "erase done")),
        ([{"type": "approve"}], [ERASE[:2]], ("success", "erase done")),
        (edit({"path": "z"}), [("erase", {"path": "z"})], ("success", "erase done")),
        (edit({"action": "erase", "args": {"path": "z"}}), [("erase", {"path": "z"})], ("success", "erase done")),
        (edit({"action": "look", "args": {"path": "a"}}), [("look", {"path": "a"})], ("success", "look done")),
        ("reject", [], ("error", "The user rejected this call; it was not executed.")),
        ([{"type": "response", "args": "I did it myself."}], [], ("success", "I did it myself.")),
        ([{"type": "respond", "args": "I did it myself."}], [], ("success", "I did it myself.")),
    ],
)
@pytest.mark.requirement("S-07")
async def test_each_decision_gives_the_call_its_result_and_the_model_continues(
    decision: Any, ran: list[Any], expected: tuple[str, str]
) -> None:
    desk = Desk()

    result = await resumed(desk, decision, ERASE)

    assert desk.ran == ran
    assert results(result) == {"e": expected}
    for messages in (result["messages"], desk.model.prompts[1]):
        assert calls({"messages": messages}) == (ran or [ERASE[:2]]), "the messages show the call that ran"
    assert result["messages"][-1].text == "ok"


async def test_edited_arguments_are_checked_like_the_models() -> None:
    desk = Desk()

    status, text = results(await resumed(desk, edit({"pfad": "z"}), ERASE))["e"]

    assert desk.ran == []
    assert (status, "path" in text) == ("error", True)


async def test_content_blocks_that_repeat_an_edited_call_are_left_out() -> None:
    desk = Desk()
    turn = calling(ERASE)
    turn.content = ["hm", {"type": "tool_use", "id": "e", "name": "erase", "input": {"path": "a"}}]
    graph = desk.graph("later", "ok")
    await graph.aupdate_state(
        THREAD, {"messages": [HumanMessage("go"), turn], "to_approve": {"e": "erase"}}, "call_model"
    )
    assert len(requests(await graph.ainvoke(None, THREAD))) == 1

    result = await graph.ainvoke(Command(resume=edit({"path": "z"})), THREAD)

    assert result["messages"][1].content == ["hm"]
    assert calls(result) == [("erase", {"path": "z"})]


@pytest.mark.parametrize("word", ["ignore", "reject"])
@pytest.mark.requirement("S-07")
async def test_a_rejected_call_is_an_error_the_model_reads_and_its_siblings_run(word: str) -> None:
    desk = Desk()

    result = await resumed(desk, [{"type": word, "args": "too early"}, {"type": word, "args": None}], ERASE, MOVE, LOOK)

    assert desk.ran == [("look", LOOK[1])]
    assert results(result)["e"] == ("error", "The user rejected this call; it was not executed. too early")
    assert results(result)["m"] == ("error", "The user rejected this call; it was not executed.")
    assert [message.type for message in desk.model.prompts[1]] == ["human", "ai", "tool", "tool", "tool"]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ([], "a list of 2 answers"),
        ("approve", "a list of 2 answers"),
        ([{"type": "accept"}] * 3, "a list of 2 answers"),
        ([{"type": "accept"}, {"type": "yes"}], "its type is 'yes'"),
        ([{"type": "accept"}, {"type": ["accept"]}], "its type is"),
        ([{"type": "accept"}, None], "an answer is"),
        ([{"type": "accept"}, {"type": "edit", "args": "z"}], "are not an object"),
        ([{"type": "accept"}, {"type": "edit", "args": {"action": "move", "args": [1]}}], "are not an object"),
        ([{"type": "accept"}, {"type": "edit", "args": {"action": "burn", "args": {}}}], "there is no tool 'burn'"),
        ([{"type": "accept"}, {"type": "response", "args": None}], "must be a non-empty text"),
        ([{"type": "accept"}, {"type": "ignore", "args": {"a": 1}}], "must be a non-empty text"),
    ],
)
async def test_an_unusable_answer_runs_nothing_and_the_request_is_repeated_with_the_reason(
    answer: Any, problem: str
) -> None:
    desk = Desk()
    graph = desk.graph(calling(ERASE, MOVE, LOOK), "ok")
    before = requests(await graph.ainvoke(GO, THREAD))

    again = requests(await graph.ainvoke(Command(resume=answer), THREAD))

    assert desk.ran == []
    assert [request["action_request"] for request in again] == [request["action_request"] for request in before]
    assert problem in again[0]["description"]
    assert before[0]["description"] in again[0]["description"]

    result = await graph.ainvoke(Command(resume=["approve", "reject"]), THREAD)

    assert desk.ran == [("erase", ERASE[1]), ("look", LOOK[1])]
    assert result["status"] == "done"


async def test_calls_that_cannot_run_need_no_approval() -> None:
    desk = Desk()
    turn = calling(("burn", {}, "b"))
    turn.invalid_tool_calls = [{"name": "erase", "args": "{", "id": "e", "error": "cut", "type": "invalid_tool_call"}]

    result = await desk.graph(turn, "ok").ainvoke(GO, THREAD)

    assert "__interrupt__" not in result
    assert {status for status, _ in results(result).values()} == {"error"}


class Flickering:
    """A catalogue whose tools come and go, or change, between a turn's steps."""

    def __init__(self, *phases: list[Any]) -> None:
        self._phases = list(phases)

    async def tools(self) -> list[Any]:
        return self._phases.pop(0) if len(self._phases) > 1 else self._phases[0]


def graph_of(catalog: Flickering, *turns: AIMessage) -> AgentGraph:
    model = ScriptedModel(turns=[*turns, "ok"])
    return build_agent_loop(tools=catalog, model=model, checkpointer=InMemorySaver())


async def test_a_tool_that_appears_after_the_models_turn_does_not_run_unapproved() -> None:
    desk = Desk()
    catalog = Flickering([], desk.tools)
    graph = graph_of(catalog, calling(ERASE), calling(("erase", {"path": "a"}, "again")))

    paused = await graph.ainvoke(GO, THREAD)

    assert desk.ran == []
    status, text = results(paused)["e"]
    assert (status, "Call it again" in text) == ("error", True)
    assert [request["action_request"]["action"] for request in requests(paused)] == ["erase"], (
        "the second call needs approval"
    )
    await graph.ainvoke(Command(resume="approve"), THREAD)
    assert desk.ran == [("erase", {"path": "a"})]


async def test_a_request_stays_the_same_when_tools_vanish_meanwhile() -> None:
    desk = Desk()
    catalog = Flickering(desk.tools, desk.tools, [])
    graph = graph_of(catalog, calling(ERASE, MOVE))
    paused = await graph.ainvoke(GO, THREAD)
    assert len(requests(paused)) == 2

    result = await graph.ainvoke(Command(resume=["approve", "approve"]), THREAD)

    assert desk.ran == []
    assert all("There is no tool" in text for _, text in results(result).values())


async def test_an_approval_is_for_the_tool_that_was_meant_and_for_no_other_that_takes_its_name() -> None:
    desk, other = Desk(), Desk()
    meant = desk.tools[1].model_copy(update={"name": "erase.it"})
    taking_its_name = other.tools[1].model_copy(update={"name": "erase it"})
    catalog = Flickering([meant], [meant], [taking_its_name])
    graph = graph_of(catalog, calling(("erase_it", {"path": "a"}, "e")))

    assert len(requests(await graph.ainvoke(GO, THREAD))) == 1
    result = await graph.ainvoke(Command(resume="approve"), THREAD)

    assert (desk.ran, other.ran) == ([], [])
    assert "needs a person's approval" in results(result)["e"][1]


async def test_a_task_sent_to_the_tool_node_without_approval_is_refused() -> None:
    desk = Desk()
    graph = desk.graph("ok")
    call = {"name": "erase", "args": {"path": "a"}, "id": "x", "type": "tool_call"}

    result = await graph.ainvoke(Command(update=GO, goto=Send("tools", [call])), THREAD)

    assert desk.ran == []
    assert "needs a person's approval" in results(result)["x"][1]


async def test_a_model_cannot_approve_its_own_call() -> None:
    desk = Desk()
    turn = AIMessage("", tool_calls=[{"name": "erase", "args": {"path": "a", "approved": True}, "id": "e"}])

    assert len(requests(await desk.graph(turn, "ok").ainvoke(GO, THREAD))) == 1
    assert desk.ran == []


async def test_no_argument_hides_behind_a_longer_one_from_the_person() -> None:
    desk = Desk()
    hidden = ("move", {"path": "b" * 5_000, "to": "/etc/passwd"}, "m")

    [request] = requests(await desk.graph(calling(hidden), "ok").ainvoke(GO, THREAD))

    assert request["description"].endswith('… (5002 characters), "to": "/etc/passwd"}')
    assert len(request["description"]) < 700
    assert request["action_request"]["args"] == hidden[1]
