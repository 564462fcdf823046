"""Count what model calls use: tokens, and dollars where the endpoint or the settings say what they cost."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from typing_extensions import TypedDict

from toolweave.config.model_price import ModelPrice

REPORTED_COSTS = "reported_costs_usd"
"""The key of `response_metadata`; a list, because pieces of an answer are joined and numbers cannot be."""


class ModelUsage(TypedDict):
    """What one model call of a stage has used; `cost_usd` is None where nobody knows the price."""

    stage: str
    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: float | None


def model_name(model: BaseChatModel, answer: AIMessage) -> str:
    """Name the model of a call: as the endpoint calls it, or else by its class."""
    named = getattr(model, "model_name", None) or answer.response_metadata.get("model_name")
    return str(named or type(model).__name__)


def gathered(calls: list[ModelUsage], more: list[ModelUsage] | None) -> list[ModelUsage]:
    """Gather what the nodes of a graph write; None begins anew."""
    return [] if more is None else [*calls, *more]


def model_usage(stage: str, answer: AIMessage, model: str, price: ModelPrice | None) -> ModelUsage:
    """Read what one call has used from its answer; the endpoint's own figure of the cost comes before the price."""
    counted = answer.usage_metadata
    read, written = (counted["input_tokens"], counted["output_tokens"]) if counted else (0, 0)
    cost = _reported_cost(answer)
    if cost is None and price is not None and counted:
        cost = price.cost_usd(read, written)
    return ModelUsage(stage=stage, model=model, input_tokens=read, output_tokens=written, cost_usd=cost)


def usage_summary(calls: Sequence[ModelUsage]) -> dict[str, Any]:
    """Sum the calls of a run: tokens, `cost_usd` (None if the cost of a call is unknown), `calls` by stage."""
    read, written = sum(call["input_tokens"] for call in calls), sum(call["output_tokens"] for call in calls)
    costs = [call["cost_usd"] for call in calls]
    return {
        "input_tokens": read,
        "output_tokens": written,
        "total_tokens": read + written,
        "cost_usd": None if None in costs else round(sum(cost or 0.0 for cost in costs), 10),
        "calls": dict(Counter(call["stage"] for call in calls)),
    }


def _reported_cost(answer: AIMessage) -> float | None:
    """Find the dollars that OpenRouter and its like report next to the tokens, in a streamed answer or a whole one."""
    streamed = answer.response_metadata.get(REPORTED_COSTS)
    whole = answer.response_metadata.get("token_usage")
    reported = whole.get("cost") if isinstance(whole, dict) else None
    cost = streamed[-1] if isinstance(streamed, list) and streamed else reported
    if isinstance(cost, bool) or not isinstance(cost, int | float):
        return None
    return float(cost) if math.isfinite(cost) and cost >= 0 else None
