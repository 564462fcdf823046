"""Messages are sent without their empty fields, and no value of a graph makes the encoding fail."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from toolweave.runtime.codec import loads
from toolweave.runtime.events.run_publisher import wire_json

CALL = {"name": "add", "args": {"a": 1}, "id": "c", "type": "tool_call"}
BAD_CALL = {"name": "add", "args": "{", "id": "b", "error": None, "type": "invalid_tool_call"}


@pytest.mark.parametrize(
    ("message", "wired"),
    [
        (HumanMessage("hi", id="1"), {"type": "human", "content": "hi", "id": "1"}),
        (SystemMessage("be", name="n"), {"type": "system", "content": "be", "id": None, "name": "n"}),
        (AIMessageChunk(content="part", id="2"), {"type": "ai", "content": "part", "id": "2"}),
        (
            AIMessage("", id="3", tool_calls=[CALL], response_metadata={"model": "m"}),
            {"type": "ai", "content": "", "id": "3", "tool_calls": [CALL], "response_metadata": {"model": "m"}},
        ),
        (
            AIMessage("", id="4", invalid_tool_calls=[BAD_CALL]),
            {"type": "ai", "content": "", "id": "4", "invalid_tool_calls": [{**BAD_CALL, "error": "Malformed args."}]},
        ),
        (
            ToolMessage("3", tool_call_id="c", id="5"),
            {"type": "tool", "content": "3", "id": "5", "tool_call_id": "c", "status": "success", "artifact": None},
        ),
    ],
)
def test_a_message_is_sent_without_its_empty_fields(message: BaseMessage, wired: dict[str, Any]) -> None:
    assert loads(wire_json(message)) == wired
    assert loads(wire_json({"deep": [(message,)]})) == {"deep": [[wired]]}


@pytest.mark.parametrize("awkward", ["half \ud800", {1: object}])
def test_messages_keep_their_form_beside_values_that_json_cannot_hold(awkward: object) -> None:
    found = loads(wire_json({"awkward": awkward, "messages": [HumanMessage("hi", id="1")]}))
    assert found["messages"] == [{"type": "human", "content": "hi", "id": "1"}]
