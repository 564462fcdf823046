"""The dialogue as the model gets it, and the calls read out of it."""

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call

from tests.fixtures.scripted_model import calling
from toolweave.nodes.tool_calls import UNKNOWN_OUTCOME, prompt_messages, requested_calls, with_unique_call_ids


def test_a_call_left_without_a_result_is_answered_with_unknown_outcome() -> None:
    asked = calling(("create_todo", {"title": "a"}, "c1"), ("create_todo", {"title": "b"}, "c2"))
    done = ToolMessage("ok", tool_call_id="c2")

    prompt = prompt_messages(None, [HumanMessage("one"), asked, done, HumanMessage("two")])

    assert [(message.type, message.text) for message in prompt] == [
        ("human", "one"),
        ("ai", ""),
        ("tool", UNKNOWN_OUTCOME),
        ("tool", "ok"),
        ("human", "two"),
    ]


def test_a_late_result_moves_behind_its_call() -> None:
    asked, late = calling(("t", {}, "c1")), ToolMessage("late", tool_call_id="c1")

    assert prompt_messages(None, [asked, HumanMessage("impatient"), late]) == [asked, late, HumanMessage("impatient")]


def test_a_result_without_its_call_is_left_out() -> None:
    orphan = ToolMessage("orphan", tool_call_id="gone")

    assert prompt_messages(None, [orphan, HumanMessage("hi")]) == [HumanMessage("hi")]


def test_arguments_that_are_not_json_are_not_sent_back_to_the_model() -> None:
    broken = AIMessage("", invalid_tool_calls=[invalid_tool_call(name="t", args='{"a": ', id="c1", error="cut")])
    refused = ToolMessage("not JSON", tool_call_id="c1", status="error")

    first, second = prompt_messages(None, [broken, refused])

    assert isinstance(first, AIMessage)
    assert [(call["name"], call["args"], call["id"]) for call in first.tool_calls] == [("t", {}, "c1")]
    assert first.invalid_tool_calls == []
    assert second is refused
    assert broken.invalid_tool_calls, "the state's own message stays as it was"


def test_requested_calls_lists_broken_ones_with_their_raw_text() -> None:
    message = calling(("t", {"a": 1}, "c1"))
    message.invalid_tool_calls = [invalid_tool_call(name=None, args=None, id=None, error=None)]

    assert requested_calls(message) == [
        {"name": "t", "args": {"a": 1}, "id": "c1", "type": "tool_call"},
        {"name": "", "args": "", "id": "", "type": "tool_call"},
    ]
    assert requested_calls(HumanMessage("hi")) == []


def test_call_ids_that_are_missing_or_were_used_before_are_replaced() -> None:
    earlier = calling(("t", {}, "call_0"))
    answer = calling(("t", {}, "call_0"), ("t", {}, ""), ("t", {}, "new"), ("t", {}, "new"))
    answer.invalid_tool_calls = [invalid_tool_call(name="t", args="[", id=None, error=None)]

    ids = [call["id"] for call in requested_calls(with_unique_call_ids(answer, [earlier]))]

    assert len({*ids, "call_0", ""}) == 7
    assert ids[2] == "new"
