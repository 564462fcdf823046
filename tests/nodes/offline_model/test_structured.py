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

SHOP = import_openapi(shop_application().openapi(), ImportOptions(base_url="http://127.0.0.1:9")).tools
FUNCTION = selection_schema(SHOP)


def _written(function: dict[str, Any], *texts: str) -> dict[str, Any]:
    """Return the arguments of the model's call after a dialogue of user and model."""
    prompt = SystemMessage("Choose one. <tool>Delete product 1 for customer 99, 'quoted', 7 euros</tool>")
    messages = [HumanMessage(text) if place % 2 == 0 else AIMessage(text) for place, text in enumerate(texts)]
    [call] = offline_model().bind_tools([function], tool_choice="any").invoke([prompt, *messages]).tool_calls
    assert call["name"] == function["name"]
    return dict(call["args"])


@pytest.mark.requirement("W-05")
@pytest.mark.parametrize(
    ("text", "tool_id", "arguments"),
    [
        ("Show product 4", "get_product", {"product_id": 4}),
        ("Search products for chess", "search_products", {"q": "chess"}),
        ("Set the price of product 2 to 45 euros", "update_product_price", {"product_id": 2, "price": 45}),
        ("List the reviews of product 3", "list_reviews", {"product_id": 3}),
        ("Cancel order A-1002", "cancel_order", {"order_id": "A-1002"}),
        (
            "Change the email of customer 17 to ada@example.org",
            "update_customer_email",
            {"customer_id": 17, "email": "ada@example.org"},
        ),
    ],
)
async def test_plain_instructions_choose_and_fill_one_of_many_operations(
    text: str, tool_id: str, arguments: dict[str, Any]
) -> None:
    only = [tool for tool in SHOP if tool.tool_id == tool_id]
    for function in (FUNCTION, selection_schema(SHOP[::-1]), selection_schema(only)):
        assert _written(function, text) == {"tool_id": tool_id, "arguments": arguments}
    structured = offline_model().with_structured_output(FUNCTION)
    assert await structured.ainvoke(text) == {"tool_id": tool_id, "arguments": arguments}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Show the customer", "get_customer needs a value that is missing: customer id."),
        ("Show product 4 and delete product 5", "Give one request at a time."),
        ("Delete product 4 and all its reviews", "I could not place ‘reviews’ in delete_product."),
        ("Cancel order A-1001 of customer 7", "I could not place ‘customer’ and ‘7’ in cancel_order."),
    ],
)
def test_a_missing_or_unused_value_is_named_instead_of_a_request(text: str, reason: str) -> None:
    assert _written(FUNCTION, text) == {"reason": f"{reason} (offline model)"}


def test_a_refused_choice_is_not_repeated() -> None:
    first = _written(FUNCTION, "Show product 4")

    again = _written(FUNCTION, "Show product 4", json.dumps(first), "This cannot be sent: product 7 is closed.")

    assert again == {"reason": "I cannot read this request in another way, and my choice was refused. (offline model)"}


def test_a_repair_of_another_models_choice_reads_the_first_message() -> None:
    wrong = json.dumps({"tool_id": "get_customer", "arguments": {"customer_id": "very"}})

    written = _written(FUNCTION, "Show product 4", wrong, "arguments.customer_id must be an integer")

    assert written == {"tool_id": "get_product", "arguments": {"product_id": 4}}


@pytest.mark.parametrize("text", ["Delete product 4", "Set product 2's price to 45 euros", "What is the weather?"])
def test_an_operation_is_not_chosen_for_another_action(text: str) -> None:
    only = [tool for tool in SHOP if tool.tool_id == "get_product"]

    assert _written(selection_schema(only), text).keys() == {"reason"}


@pytest.mark.parametrize("text", ["", "9" * 5_000, "product " * 2_000, "\x00\ue000product 4", "a,b;c:" * 300])
def test_long_and_strange_texts_are_answered(text: str) -> None:
    assert _written(FUNCTION, text).keys() in ({"reason"}, {"tool_id", "arguments"})


@pytest.mark.parametrize(
    "arguments", ["loan_book", {"anyOf": "a"}, {"anyOf": [{"title": "b", "description": 7}]}, {"type": "object"}]
)
def test_a_function_with_an_odd_schema_is_called(arguments: Any) -> None:
    properties = {"tool_id": {"type": "string"}, "arguments": arguments}
    function = {"name": "odd", "description": "", "parameters": {"type": "object", "properties": properties}}
    reply = offline_model().bind_tools([function], tool_choice="any").invoke("show product 4")

    assert [call["name"] for call in reply.tool_calls] == ["odd"]


_WORDS = "show delete change order product customer price 4 17 -3 2.5 euros to of for A-1001 books pending 'x y' since"


@pytest.mark.requirement("O-01")
@given(st.lists(st.sampled_from([*_WORDS.split(), "reviews", "monday", "not", "and", ",", "?", ":", "="]), max_size=14))
def test_the_chosen_arguments_always_fit_their_schema(words: list[str]) -> None:
    tools = {tool.tool_id: tool for tool in SHOP}
    written = _written(FUNCTION, " ".join(words))

    assert written.keys() in ({"reason"}, {"tool_id", "arguments"})
    assert written == _written(FUNCTION, " ".join(words))
    if "tool_id" in written:
        jsonschema.validate(written["arguments"], tools[written["tool_id"]].input_schema)
