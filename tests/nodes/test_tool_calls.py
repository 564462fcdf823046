"""The dialogue as the model gets it, and the calls read out of it."""

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call

from tests.fixtures.scripted_model import calling
from toolweave.nodes.tool_calls import UNKNOWN_OUTCOME, prompt_messages, requested_calls, with_unique_call_ids


def test_a_late_result_or_an_unknown_outcome_follows_its_call_and_a_result_without_a_call_is_left_out() -> None:
    request, late = calling(("t", {}, "c1"), ("t", {}, "c2")), ToolMessage("late", tool_call_id="c1")
    orphan, human = ToolMessage("orphan", tool_call_id="gone"), HumanMessage("impatient")

    unknown = ToolMessage(UNKNOWN_OUTCOME, tool_call_id="c2", name="t", status="error")
    assert prompt_messages(None, [orphan, request, human, late]) == [request, late, unknown, human]


def test_arguments_that_are_not_json_are_not_sent_back_to_the_model() -> None:
    broken = AIMessage("", invalid_tool_calls=[invalid_tool_call(name="t", args='{"a": ', id="c1", error="cut")])
    refused = ToolMessage("not JSON", tool_call_id="c1", status="error")

    first, second = prompt_messages(None, [broken, refused])

    assert isinstance(first, AIMessage)
    assert [(call["name"], call["args"], call["id"]) for call in first.tool_calls] == [("t", {}, "c1")]
    assert first.invalid_tool_calls == []
    assert second is refused
    assert broken.invalid_tool_calls, "the state's own message stays as it was"


def test_missing_and_repeated_call_ids_are_replaced() -> None:
    earlier = calling(("t", {}, "call_0"))
    answer = calling(("t", {}, "call_0"), ("t", {}, ""), ("t", {}, "new"), ("t", {}, "new"))
    answer.invalid_tool_calls = [invalid_tool_call(name="t", args="[", id=None, error=None)]

    ids = [call["id"] for call in requested_calls(with_unique_call_ids(answer, [earlier]))]

    assert len({*ids, "call_0", ""}) == 7
    assert ids[2] == "new"
