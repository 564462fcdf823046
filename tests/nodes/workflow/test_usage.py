"""What model calls have used: tokens and dollars."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata

from tests.fixtures.openai_wire import WireTurn
from tests.nodes.workflow.selecting import Endpoint
from toolweave.config.model_price import ModelPrice
from toolweave.nodes.chat_model_source import as_lazy
from toolweave.nodes.model_usage import ModelUsage, model_usage, usage_summary
from toolweave.nodes.offline_model import OfflineChatModel
from toolweave.nodes.workflow.prompting import WorkflowPrompts

PRICE = ModelPrice(1.0, 10.0)
COUNTED = UsageMetadata(input_tokens=1_000, output_tokens=100, total_tokens=1_100)


async def used(endpoint: Endpoint, usage: dict[str, Any] | None, price: ModelPrice | None = None) -> ModelUsage:
    told = await endpoint.told(WireTurn(text="A text.", usage=usage), {"status_code": 200, "body": 1}, price=price)
    assert endpoint.server.requests[0].body["stream_options"] == {"include_usage": True}
    [call] = told.usage
    return call


async def test_a_streamed_answer_tells_its_tokens_although_the_endpoint_is_not_openais(endpoint: Endpoint) -> None:
    call = await used(endpoint, {"prompt_tokens": 30, "completion_tokens": 4, "total_tokens": 34})

    assert call == {
        "stage": "response_formatting",
        "model": "m",
        "input_tokens": 30,
        "output_tokens": 4,
        "cost_usd": None,
    }


async def test_the_cost_is_what_the_endpoint_reports_before_what_the_price_says(endpoint: Endpoint) -> None:
    reported = {"prompt_tokens": 30, "completion_tokens": 4, "total_tokens": 34, "cost": 0.0125}

    assert (await used(endpoint, reported, PRICE))["cost_usd"] == 0.0125
    assert (await used(endpoint, {**reported, "cost": None}, PRICE))["cost_usd"] == pytest.approx(7e-05)


async def test_an_endpoint_that_tells_no_tokens_leaves_the_cost_unknown(endpoint: Endpoint) -> None:
    call = await used(endpoint, None, PRICE)

    assert (call["input_tokens"], call["output_tokens"], call["cost_usd"]) == (0, 0, None)


@pytest.mark.parametrize("cost", ["1", True, -1.0, float("nan"), float("inf"), {}])
def test_a_cost_that_is_no_amount_is_not_taken(cost: Any) -> None:
    answer = AIMessage("x", usage_metadata=COUNTED, response_metadata={"token_usage": {"cost": cost}})

    assert model_usage("llm_selection", answer, "m", None)["cost_usd"] is None
    assert model_usage("llm_selection", answer, "m", PRICE)["cost_usd"] == pytest.approx(0.002)


def test_the_cost_of_an_answer_that_was_not_streamed_is_read_too() -> None:
    answer = AIMessage("x", usage_metadata=COUNTED, response_metadata={"token_usage": {"cost": 0.5}})

    assert model_usage("llm_selection", answer, "m", None)["cost_usd"] == 0.5


def test_a_summary_adds_the_calls_up_by_stage() -> None:
    calls = [
        ModelUsage(stage="llm_selection", model="m", input_tokens=10, output_tokens=1, cost_usd=0.1),
        ModelUsage(stage="llm_selection", model="m", input_tokens=20, output_tokens=2, cost_usd=0.2),
        ModelUsage(stage="response_formatting", model="m", input_tokens=40, output_tokens=4, cost_usd=0.4),
    ]

    assert usage_summary(calls) == {
        "input_tokens": 70,
        "output_tokens": 7,
        "total_tokens": 77,
        "cost_usd": pytest.approx(0.7),
        "calls": {"llm_selection": 2, "response_formatting": 1},
    }


def test_a_sum_with_an_unknown_cost_is_unknown_and_no_call_costs_nothing() -> None:
    known = ModelUsage(stage="llm_selection", model="m", input_tokens=10, output_tokens=1, cost_usd=0.1)

    assert usage_summary([known, {**known, "cost_usd": None}])["cost_usd"] is None
    assert usage_summary([]) == {
        "input_tokens": 0,
        "output_tokens": 0,
        "total_tokens": 0,
        "cost_usd": 0.0,
        "calls": {},
    }


async def test_the_offline_model_counts_its_tokens_and_costs_nothing_known() -> None:
    prompts = WorkflowPrompts(as_lazy(OfflineChatModel()))

    told = await prompts.format(instructions="x", response={"status_code": 200, "body": {"a": 1}}, config={})

    [call] = told.usage
    assert call["model"] == "offline"
    assert call["input_tokens"] > 0
    assert call["cost_usd"] is None
