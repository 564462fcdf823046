"""Input schemas of any shape become a tool's, and arguments the graph's input again."""

from typing import Any

from toolweave.api.langgraph.routes.mcp import tool_input

NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}


def test_a_graph_whose_schema_cannot_be_made_takes_any_object() -> None:
    taken = tool_input(None)
    assert taken.schema == {"type": "object"}
    assert taken.graph_input({"n": 1}) == {"n": 1}


def test_a_graph_that_takes_no_object_gets_its_input_by_name() -> None:
    taken = tool_input({"title": "Words", "type": "array", "items": {"$ref": "#/$defs/Word"}, "$defs": {"Word": {}}})
    assert taken.schema == {
        "type": "object",
        "properties": {"input": {"title": "Words", "type": "array", "items": {"$ref": "#/$defs/Word"}}},
        "required": ["input"],
        "$defs": {"Word": {}},
    }
    assert taken.graph_input({"input": ["a"]}) == ["a"]
    assert taken.graph_input({}) is None


def test_unused_definitions_are_removed() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "tree": {"$ref": "#/$defs/Tree"},
            "messages": {"type": "array", "items": {"$ref": "#/$defs/Message"}},
        },
        "$defs": {"Tree": {"anyOf": [{"$ref": "#/$defs/Node"}]}, "Node": NODE, "Message": {"type": "object"}},
    }
    taken = tool_input(schema)
    assert set(taken.schema["$defs"]) == {"Tree", "Node"}
    assert taken.graph_input({"messages": "hi", "tree": 1}) == {
        "messages": [{"role": "user", "content": "hi"}],
        "tree": 1,
    }
    assert taken.graph_input({"messages": [1]}) == {"messages": [1]}


def test_a_string_field_named_messages_stays_a_string() -> None:
    taken = tool_input({"type": "object", "properties": {"messages": {"type": "string"}}})
    assert taken.graph_input({"messages": "hi"}) == {"messages": "hi"}
