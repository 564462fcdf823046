"""Texts and schemas of a server are limited before they are shown."""

from typing import Any

import pytest

from toolweave.servers.connections.results import description_text, error_text, one_line
from toolweave.servers.connections.sessions.session import SchemaTooLarge, schema_for_model

PERSON = {"type": "object", "properties": {"name": {"type": "string"}}}


def test_an_error_has_at_most_two_kilobytes_of_any_characters() -> None:
    for text in ("x" * 100_000, "é" * 100_000, "🎉" * 100_000):
        assert 1_990 <= len(error_text(text).encode()) <= 2_000
        assert error_text(text).endswith("…")
    assert error_text("  \x1b[1mno such file\x1b[0m\n") == "no such file"


def test_descriptions_and_notes_are_bounded() -> None:
    assert len(description_text("d" * 100_000)) == 4_000
    assert description_text(None) == description_text("\u200b\x00") == ""
    assert one_line("one\n  two\x1b[2J") == "one two"
    assert len(one_line("n" * 100_000)) == 500


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({"$ref": "#/$defs/p", "$defs": {"p": PERSON}}, PERSON),
        ({"properties": {"a": {"$ref": "#/$defs/p"}}, "$defs": {"p": PERSON}}, {"properties": {"a": PERSON}}),
        (
            {"properties": {"a": {"$ref": "#/definitions/p", "description": "who"}}, "definitions": {"p": PERSON}},
            {"properties": {"a": {**PERSON, "description": "who"}}},
        ),
        ({"properties": {"a": {"$ref": "http://127.0.0.1:9/a.json"}}}, {"properties": {"a": {}}}),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, {"properties": {"a": {}}}),
        ({"properties": {"a": {"$ref": "#/properties/a"}}}, {"properties": {"a": {}}}),
        ({"properties": {"$ref": {"type": "string"}}}, {"properties": {"$ref": {"type": "string"}}}),
        (
            {"properties": {"a~/b": {"x": 1}, "c": {"$ref": "#/properties/a~0~1b"}}},
            {"properties": {"a~/b": {"x": 1}, "c": {"x": 1}}},
        ),
    ],
)
def test_references_are_replaced_by_their_targets(schema: dict[str, Any], shown: dict[str, Any]) -> None:
    assert schema_for_model(schema) == shown


def test_a_recursive_schema_ends_where_it_repeats() -> None:
    tree = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
    shown = schema_for_model({"properties": {"root": {"$ref": "#/$defs/tree"}}, "$defs": {"tree": tree}})
    assert shown["properties"]["root"]["properties"]["children"] == {"type": "array", "items": {}}


def test_references_that_double_each_other_are_too_large() -> None:
    forms: dict[str, Any] = {"f0": {"type": "string"}}
    for level in range(40):
        forms[f"f{level + 1}"] = {"anyOf": [{"$ref": f"#/$defs/f{level}"}, {"$ref": f"#/$defs/f{level}"}]}
    with pytest.raises(SchemaTooLarge):
        schema_for_model({"properties": {"a": {"$ref": "#/$defs/f40"}}, "$defs": forms})
