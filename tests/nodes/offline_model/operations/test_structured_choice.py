"""What the model writes for a structured output that is a choice among tools, whoever asks for it."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from tests.nodes.offline_model.judging import offline_model
from tests.nodes.offline_model.operations.judging import choose, shop_operations
from toolweave.nodes.workflow.selection_schema import selection_schema

TEXT = {"type": "string"}
LIBRARY = [
    {
        "title": "loan_book",
        "description": "Lend a book to a member.",
        "type": "object",
        "properties": {"isbn_code": TEXT, "member_id": {"type": "integer"}, "weeks": {"type": "integer", "maximum": 8}},
        "required": ["isbn_code", "member_id"],
    },
    {
        "title": "find_rooms",
        "description": "Find reading rooms.",
        "type": "object",
        "properties": {
            "min_seats": {"type": "integer", "description": "At least so many seats."},
            "floor": {"type": "string", "enum": ["ground", "upper"]},
            "quiet": {"type": "boolean"},
        },
    },
    {
        "title": "reserve_room",
        "description": "Reserve a reading room.",
        "type": "object",
        "properties": {
            "room_id": {"type": "string", "description": "Id of the room, such as R-12."},
            "date": {"type": "string", "format": "date"},
            "persons": {"type": "integer", "default": 1},
        },
        "required": ["room_id", "date"],
    },
]


def _function(forms: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    names = {"which": TEXT | {"enum": [form["title"] for form in forms]}, "inputs": {"anyOf": forms}}
    return {"name": "decide", "description": "Choose.", "parameters": {"type": "object", "properties": names | more}}


def _written(function: dict[str, Any], *texts: str) -> dict[str, Any]:
    said = [HumanMessage(text) if place % 2 == 0 else AIMessage(text) for place, text in enumerate(texts)]
    [call] = offline_model().bind_tools([function], tool_choice="any").invoke([SystemMessage("x"), *said]).tool_calls
    assert call["name"] == function["name"]
    return dict(call["args"])


@pytest.mark.parametrize(
    ("text", "which", "inputs"),
    [
        ("Lend book 978-3 to member 5", "loan_book", {"isbn_code": "978-3", "member_id": 5}),
        ("please lend the book 978-3 to member 5 for 3 weeks", "loan_book", None),
        ("Which quiet rooms have at least 4 seats?", "find_rooms", {"min_seats": 4, "quiet": True}),
        ("find rooms on the upper floor", "find_rooms", {"floor": "upper"}),
        ("reserve room R-12 for tomorrow", "reserve_room", {"room_id": "R-12", "date": "2026-03-05"}),
    ],
)
def test_forms_of_any_domain_and_under_any_names_are_chosen_and_filled(
    text: str, which: str, inputs: dict[str, Any] | None
) -> None:
    for forms in (LIBRARY, LIBRARY[::-1]):
        written = _written(_function(forms), text)

        assert written["which"] == which
        assert inputs is None or written["inputs"] == inputs


def test_forms_behind_references_are_read() -> None:
    function = _function([])
    parameters = function["parameters"]
    parameters["$defs"] = {form["title"]: form for form in LIBRARY}
    parameters["properties"] = {
        "which": {"enum": [form["title"] for form in LIBRARY]},
        "inputs": {"oneOf": [{"$ref": f"#/$defs/{form['title']}"} for form in LIBRARY]},
    }

    assert _written(function, "find rooms on the ground floor") == {
        "which": "find_rooms",
        "inputs": {"floor": "ground"},
    }


def test_a_single_form_is_the_whole_choice() -> None:
    function = _function([])
    function["parameters"]["properties"] = {"which": {"const": "find_rooms"}, "inputs": LIBRARY[1], "reason": TEXT}

    assert _written(function, "rooms with at least 6 seats") == {"which": "find_rooms", "inputs": {"min_seats": 6}}
    assert _written(function, "What is the weather?").keys() == {"reason"}


def test_a_missing_value_is_named_and_not_made_up() -> None:
    written = _written(_function(LIBRARY, reason=TEXT), "reserve a room for tomorrow")

    assert written == {"reason": "reserve_room needs a value that was not given: room id. (offline model)"}


def test_a_refused_value_is_named() -> None:
    written = _written(_function(LIBRARY, reason=TEXT), "Lend book 978-3 to member 5 for 12 weeks")

    assert written == {"reason": "loan_book does not take what was given as weeks. (offline model)"}


def test_without_a_field_for_the_reason_nothing_is_written() -> None:
    assert _written(_function(LIBRARY), "sing a song") == {}


def test_what_the_prompt_and_the_tools_say_is_not_taken_for_the_users_words() -> None:
    tools = shop_operations()
    bound = offline_model().bind_tools([selection_schema(tools)], tool_choice="any")
    prompt = SystemMessage("Delete product 4.\n<tool>update_product_price of product 1 to 3 euros</tool>")

    [call] = bound.invoke([prompt, HumanMessage("Show product 2")]).tool_calls

    assert call["args"] == {"tool_id": "get_product", "arguments": {"product_id": 2}}


def test_a_choice_that_was_refused_is_not_made_again() -> None:
    function = _function(LIBRARY, reason=TEXT)
    text = "reserve room R-12 for tomorrow"
    first = _written(function, text)

    again = _written(function, text, json.dumps(first), "This cannot be sent: room 7 is closed. Correct it.")

    assert again == {"reason": "I can read these words in no other way, and what I chose was refused. (offline model)"}


def test_a_repair_of_anothers_choice_reads_the_first_words() -> None:
    function = _function(LIBRARY, reason=TEXT)
    wrong = json.dumps({"which": "find_rooms", "inputs": {"min_seats": "many"}})

    written = _written(function, "find rooms on the upper floor", wrong, "inputs.min_seats: 12 is not what was said")

    assert written == {"which": "find_rooms", "inputs": {"floor": "upper"}}


async def test_a_choice_is_made_with_structured_output_and_streams() -> None:
    structured = offline_model().with_structured_output(_function(LIBRARY))

    assert await structured.ainvoke("find rooms on the upper floor") == {
        "which": "find_rooms",
        "inputs": {"floor": "upper"},
    }


def test_no_operation_is_called_for_what_another_one_would_do() -> None:
    tools = {tool.tool_id: tool for tool in shop_operations()}

    for text, offered in (
        ("Delete product 4", "get_product"),
        ("Set product 2's price to 45 euros", "get_product"),
        ("Show order A-1001", "cancel_order"),
    ):
        assert choose(text, [tools[offered]]).keys() == {"reason"}


def test_long_and_strange_texts_are_answered() -> None:
    for text in (
        "",
        "\n",
        "9" * 5_000,
        "product " * 2_000,
        "'" * 500,
        "\x00\ue000product 4",
        "🛒" * 50,
        "a,b;c:" * 300,
    ):
        assert choose(text).keys() in ({"reason"}, {"tool_id", "arguments"})


def test_odd_schemas_are_no_choice_and_break_nothing() -> None:
    for properties in (
        {"which": {"enum": "loan_book"}, "inputs": {"title": "loan_book"}},
        {"which": {"enum": ["a"]}, "inputs": {"anyOf": "a"}},
        {"which": {"enum": ["a"]}, "inputs": {"anyOf": [{"title": "b"}, 7]}},
        {"which": {"enum": ["a"]}, "inputs": {"anyOf": [{"$ref": "#"}]}},
    ):
        function = {"name": "odd", "description": "", "parameters": {"type": "object", "properties": properties}}
        reply = offline_model().bind_tools([function], tool_choice="any").invoke("show product 4")

        assert [call["name"] for call in reply.tool_calls] == ["odd"]


@pytest.mark.requirement("O-01")
@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "show",
                "delete",
                "change",
                "order",
                "product",
                "customer",
                "price",
                "4",
                "17",
                "-3",
                "2.5",
                "euros",
                "kg",
                "to",
                "of",
                "for",
                "A-1001",
                "books",
                "pending",
                "'x",
                "y'",
                "reviews",
                "stars",
                "monday",
                "France",
                "USD",
                "yen",
                "since",
                "yesterday",
                "not",
                "and",
                ",",
                "?",
                ":",
                "=",
            ]
        ),
        max_size=14,
    )
)
def test_what_is_chosen_always_fits_its_schema(words: list[str]) -> None:
    tools = {tool.tool_id: tool for tool in shop_operations()}
    written = choose(" ".join(words))

    assert written.keys() in ({"reason"}, {"tool_id", "arguments"})
    assert written == choose(" ".join(words))
    if "tool_id" in written:
        jsonschema.validate(written["arguments"], tools[written["tool_id"]].input_schema)
