"""What the model writes for the function by which the workflow has a request chosen (W-05)."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from tests.fixtures.shop_api import shop_application
from tests.nodes.offline_model.judging import offline_model
from toolweave.nodes.workflow.tool_descriptions import selection_schema
from toolweave.servers.registry.openapi.importing import ImportOptions, import_openapi

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
        "properties": {"floor": {"type": "string", "enum": ["ground", "upper"]}, "quiet": {"type": "boolean"}},
    },
    {
        "title": "reserve_room",
        "description": "Reserve a reading room.",
        "type": "object",
        "properties": {
            "room_id": {"type": "string", "description": "Id of the room, such as R-12."},
            "date": {"type": "string", "format": "date"},
        },
        "required": ["room_id", "date"],
    },
]
SHOP = import_openapi(shop_application().openapi(), ImportOptions(base_url="http://127.0.0.1:9")).tools


def _function(forms: list[dict[str, Any]]) -> dict[str, Any]:
    arguments = forms[0] if len(forms) == 1 else {"anyOf": forms}
    properties = {"tool_id": {"enum": [form["title"] for form in forms]}, "arguments": arguments, "reason": TEXT}
    return {"name": "decide", "description": "Choose.", "parameters": {"type": "object", "properties": properties}}


def _written(function: dict[str, Any], *texts: str) -> dict[str, Any]:
    prompt = SystemMessage("Choose one. <tool>Delete product 1 for customer 99, 'quoted', 7 euros</tool>")
    said = [HumanMessage(text) if place % 2 == 0 else AIMessage(text) for place, text in enumerate(texts)]
    [call] = offline_model().bind_tools([function], tool_choice="any").invoke([prompt, *said]).tool_calls
    assert call["name"] == function["name"]
    return dict(call["args"])


def _chosen(text: str, *tool_ids: str) -> dict[str, Any]:
    """Give what is written for the shop's imported operations, or for some of them."""
    return _written(selection_schema([tool for tool in SHOP if not tool_ids or tool.tool_id in tool_ids]), text)


@pytest.mark.requirement("W-05")
@pytest.mark.parametrize(
    ("text", "tool_id", "arguments"),
    [
        ("Show product 4", "get_product", {"product_id": 4}),
        ("Search products for chess", "search_products", {"q": "chess"}),
        ("Set the price of product 2 to 45 euros", "update_product_price", {"product_id": 2, "price": 45}),
        ("Delete product 4", "delete_product", {"product_id": 4}),
        ("List the reviews of product 3", "list_reviews", {"product_id": 3}),
        ("Show me order A-1001", "get_order", {"order_id": "A-1001"}),
        ("Cancel order A-1002", "cancel_order", {"order_id": "A-1002"}),
        ("Show customer 17", "get_customer", {"customer_id": 17}),
        (
            "Change the email of customer 17 to ada@example.org",
            "update_customer_email",
            {"customer_id": 17, "email": "ada@example.org"},
        ),
    ],
)
def test_plain_instructions_choose_and_fill_one_of_many_operations(
    text: str, tool_id: str, arguments: dict[str, Any]
) -> None:
    assert _chosen(text) == {"tool_id": tool_id, "arguments": arguments}


@pytest.mark.parametrize(
    ("text", "tool_id", "arguments"),
    [
        ("find rooms on the upper floor", "find_rooms", {"floor": "upper"}),
        ("reserve room R-12 for tomorrow", "reserve_room", {"room_id": "R-12", "date": "2026-03-05"}),
    ],
)
def test_forms_of_any_domain_are_chosen_and_filled(text: str, tool_id: str, arguments: dict[str, Any]) -> None:
    for forms in (LIBRARY, LIBRARY[::-1]):
        assert _written(_function(forms), text) == {"tool_id": tool_id, "arguments": arguments}


def test_a_single_form_is_the_whole_choice() -> None:
    function = _function(LIBRARY[1:2])

    assert _written(function, "find rooms on the upper floor")["arguments"] == {"floor": "upper"}
    assert _written(function, "What is the weather?").keys() == {"reason"}


def test_a_missing_value_is_named_and_not_made_up() -> None:
    written = _written(_function(LIBRARY), "reserve a room for tomorrow")

    assert written == {"reason": "reserve_room needs a value that is missing: room id. (offline model)"}


@pytest.mark.parametrize(
    ("text", "unused"),
    [
        ("Delete product 4 and all its reviews", "reviews"),
        ("Cancel order A-1001 of customer 7", "customer"),
        ("Set the price of product 2 to 45 euros from Monday on", "Monday"),
    ],
)
def test_words_that_no_argument_took_are_named_instead_of_a_request(text: str, unused: str) -> None:
    written = _chosen(text)

    assert written.keys() == {"reason"}
    assert f"‘{unused}’" in written["reason"]


def test_a_choice_that_was_refused_is_not_made_again() -> None:
    function = _function(LIBRARY)
    text = "reserve room R-12 for tomorrow"
    first = _written(function, text)

    again = _written(function, text, json.dumps(first), "This cannot be sent: room 7 is closed. Correct it.")

    assert again == {"reason": "I cannot read this request in another way, and my choice was refused. (offline model)"}


def test_a_repair_of_anothers_choice_reads_the_first_words() -> None:
    function = _function(LIBRARY)
    wrong = json.dumps({"tool_id": "find_rooms", "arguments": {"quiet": "very"}})

    written = _written(function, "find rooms on the upper floor", wrong, "arguments.quiet: very is not what was said")

    assert written == {"tool_id": "find_rooms", "arguments": {"floor": "upper"}}


async def test_a_choice_is_made_with_structured_output_and_streams() -> None:
    structured = offline_model().with_structured_output(_function(LIBRARY))

    assert await structured.ainvoke("find rooms on the upper floor") == {
        "tool_id": "find_rooms",
        "arguments": {"floor": "upper"},
    }


@pytest.mark.parametrize(
    ("text", "offered"),
    [("Delete product 4", "get_product"), ("Set product 2's price to 45 euros", "get_product")],
)
def test_no_operation_is_called_for_what_another_one_would_do(text: str, offered: str) -> None:
    assert _chosen(text, offered).keys() == {"reason"}


@pytest.mark.parametrize(
    "text", ["", "\n", "9" * 5_000, "product " * 2_000, "'" * 500, "\x00\ue000product 4", "🛒" * 50, "a,b;c:" * 300]
)
def test_long_and_strange_texts_are_answered(text: str) -> None:
    assert _chosen(text).keys() in ({"reason"}, {"tool_id", "arguments"})


@pytest.mark.parametrize(
    "properties",
    [
        {"tool_id": TEXT, "arguments": "loan_book"},
        {"tool_id": TEXT, "arguments": {"anyOf": "a"}},
        {"tool_id": TEXT, "arguments": {"anyOf": [{"title": "b", "description": 7}]}},
        {"tool_id": TEXT, "arguments": {"type": "object"}},
    ],
)
def test_odd_schemas_are_no_choice_and_break_nothing(properties: dict[str, Any]) -> None:
    function = {"name": "odd", "description": "", "parameters": {"type": "object", "properties": properties}}
    reply = offline_model().bind_tools([function], tool_choice="any").invoke("show product 4")

    assert [call["name"] for call in reply.tool_calls] == ["odd"]


_WORDS = "show delete change order product customer price 4 17 -3 2.5 euros to of for A-1001 books pending 'x y' since"


@pytest.mark.requirement("O-01")
@given(st.lists(st.sampled_from([*_WORDS.split(), "reviews", "monday", "not", "and", ",", "?", ":", "="]), max_size=14))
def test_what_is_chosen_always_fits_its_schema(words: list[str]) -> None:
    tools = {tool.tool_id: tool for tool in SHOP}
    written = _chosen(" ".join(words))

    assert written.keys() in ({"reason"}, {"tool_id", "arguments"})
    assert written == _chosen(" ".join(words))
    if "tool_id" in written:
        jsonschema.validate(written["arguments"], tools[written["tool_id"]].input_schema)
