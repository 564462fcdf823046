"""What model calls have used: tokens, by stage."""

from typing import Any

from tests.fixtures.openai_wire import WireTurn
from tests.nodes.workflow.selecting import Endpoint, after_call
from toolweave.nodes.chat_models import as_lazy_chat_model
from toolweave.nodes.model_turn import ModelUsage, usage_summary
from toolweave.nodes.offline_model import OfflineChatModel
from toolweave.nodes.workflow.prompts import WorkflowModel


async def used(endpoint: Endpoint, usage: dict[str, Any] | None) -> ModelUsage:
    told = await endpoint.told(WireTurn(text="A text.", usage=usage), {"status_code": 200, "body": 1})
    assert endpoint.server.requests[0].body["stream_options"] == {"include_usage": True}
    call: ModelUsage
    [call] = told["model_usage"]
    return call


async def test_a_streamed_answer_tells_its_tokens_although_the_endpoint_is_not_openais(endpoint: Endpoint) -> None:
    call = await used(endpoint, {"prompt_tokens": 30, "completion_tokens": 4, "total_tokens": 34})

    assert call == {"stage": "response_formatting", "model": "m", "input_tokens": 30, "output_tokens": 4}


async def test_an_endpoint_that_tells_no_tokens_counts_none(endpoint: Endpoint) -> None:
    call = await used(endpoint, None)

    assert (call["input_tokens"], call["output_tokens"]) == (0, 0)


def test_a_summary_adds_the_calls_up_by_stage() -> None:
    calls = [
        ModelUsage(stage="llm_selection", model="m", input_tokens=10, output_tokens=1),
        ModelUsage(stage="llm_selection", model="m", input_tokens=20, output_tokens=2),
        ModelUsage(stage="response_formatting", model="m", input_tokens=40, output_tokens=4),
    ]

    assert usage_summary(calls) == {
        "input_tokens": 70,
        "output_tokens": 7,
        "total_tokens": 77,
        "calls": {"llm_selection": 2, "response_formatting": 1},
    }
    assert usage_summary([]) == {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0, "calls": {}}


async def test_the_offline_model_counts_its_tokens() -> None:
    prompts = WorkflowModel(as_lazy_chat_model(OfflineChatModel()))

    _, call = await prompts.format(after_call({"status_code": 200, "body": {"a": 1}}), {})

    assert call["model"] == "offline"
    assert call["input_tokens"] > 0
