"""Bodies are checked in microseconds, with the messages of the reference server."""

from typing import Any

import pytest

from toolweave.api.langgraph.components import COMPONENTS, body_schema
from toolweave.api.langgraph.json_schema import BodySchema
from toolweave.errors import InvalidRequest


def problem(name: str, value: Any) -> str:
    with pytest.raises(InvalidRequest) as raised:
        body_schema(name).check(value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("name", "value", "text", "rule", "where", "place", "shown"),
    [
        (
            "RunCreateStateful",
            {"input": {}},
            '"assistant_id" is a required property',
            "required",
            "",
            "",
            '{"input":{}}',
        ),
        (
            *("AssistantSearchRequest", {"limit": 0}, "0 is less than the minimum of 1"),
            *("minimum", '["properties"]["limit"]', '["limit"]', "0"),
        ),
        (
            *(
                "AssistantSearchRequest",
                {"select": ["x"]},
                '"x" is not one of "assistant_id", "graph_id" or 8 other candidates',
            ),
            *("enum", '["properties"]["select"]["items"]', '["select"][0]', '"x"'),
        ),
        (
            *("ThreadStateCheckpointRequest", {"checkpoint": "an id"}, '"an id" is not of type "object"'),
            *("type", '["components"]["schemas"]["CheckpointConfig"]', '["checkpoint"]', '"an id"'),
        ),
    ],
)
def test_a_problem_names_the_rule_and_the_place(
    name: str, value: Any, text: str, rule: str, where: str, place: str, shown: str
) -> None:
    expected = f'{text}\n\nFailed validating "{rule}" in schema{where}\n\nOn instance{place}:\n    {shown}'
    assert problem(name, value) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"limit": 2.5}, '2.5 is not of type "integer"'),
        ({"limit": True}, 'true is not of type "integer"'),
        ({"offset": 2**64 - 1}, "is greater than the maximum of"),
        ({"extract": {"a": 1}}, '1 is not of type "string"'),
        ({"extract": {str(i): "values" for i in range(11)}}, "has more than 10 properties"),
        (None, 'null is not of type "object"'),
    ],
)
def test_a_wrong_value_is_named(value: Any, text: str) -> None:
    assert text in problem("ThreadSearchRequest", value)


@pytest.mark.parametrize(
    "value",
    [
        {"stream_mode": ["values", "loud"]},
        {"interrupt_before": 3},
        {"interrupt_after": "some"},
        {"command": {"goto": [{"input": 1}]}},
        {"command": {"update": "text"}},
        {"webhook": ""},
        {"after_seconds": 1e12},
        {"if_not_exists": "maybe"},
        {"feedback_keys": "k"},
        *({name: None} for name in ("metadata", "config", "stream_mode", "assistant_id")),
        {"checkpoint": []},
        {"checkpoint_id": 5},
    ],
)
def test_every_run_field_is_checked(value: dict[str, Any]) -> None:
    assert problem("RunCreateStateful", {"assistant_id": "a", **value})


@pytest.mark.parametrize(
    "value",
    [
        {"stream_mode": []},
        {"stream_mode": "messages-tuple", "interrupt_before": "*", "interrupt_after": ["a"]},
        {"command": {"resume": {"any": [1, None]}, "goto": ["a", {"node": "b", "input": {}}], "update": [["n", 1]]}},
        {"input": [1], "after_seconds": 0.5},
        {"command": None, "checkpoint_id": None, "on_disconnect": None, "input": None},
        {"no_such_field": 1},
    ],
)
def test_bodies_that_clients_send_are_accepted(value: dict[str, Any]) -> None:
    body_schema("RunCreateStateful").check({"assistant_id": "a", **value})


MANY = {str(number): number for number in range(5000)}


@pytest.mark.requirement("R-03")
@pytest.mark.parametrize(
    ("name", "value", "ends"),
    [
        ("ThreadCreate", {"metadata": "x" * 100_000}, 'x" is not of type "object"'),
        ("RunCreateStateful", {"input": MANY}, " RunCreateStateful of /openapi.json."),
        ("RunBatchCreate", [{"assistant_id": "a"}] * 3000, " RunBatchCreate of /openapi.json."),
        ("ThreadStateSearch", {"metadata": MANY | {"n": 2**64}}, " ThreadStateSearch of /openapi.json."),
    ],
)
def test_the_schema_that_a_large_body_does_not_fit_is_named(name: str, value: Any, ends: str) -> None:
    message = problem(name, value)
    assert message.startswith(f"The request body does not fit the schema {name} of /openapi.json.")
    assert message.endswith(ends)
    assert len(message) < 400


def test_all_published_schemas_compile() -> None:
    for name in COMPONENTS:
        BodySchema(name, COMPONENTS)
