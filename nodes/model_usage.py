"""Count the tokens that model calls use."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from typing_extensions import TypedDict


class ModelUsage(TypedDict):
    """What one model call of a stage has used."""

    stage: str
    model: str
    input_tokens: int
    output_tokens: int


def model_name(model: BaseChatModel, answer: AIMessage) -> str:
    """Name the model of a call: as the endpoint calls it, or else by its class."""
    named = getattr(model, "model_name", None) or answer.response_metadata.get("model_name")
    return str(named or type(model).__name__)


def gathered(calls: list[ModelUsage], more: list[ModelUsage] | None) -> list[ModelUsage]:
    """Gather what the nodes of a graph write; None begins anew."""
    return [] if more is None else [*calls, *more]


def model_usage(stage: str, answer: AIMessage, model: str) -> ModelUsage:
    """Read what one call has used from its answer."""
    counted = answer.usage_metadata
    read, written = (counted["input_tokens"], counted["output_tokens"]) if counted else (0, 0)
    return ModelUsage(stage=stage, model=model, input_tokens=read, output_tokens=written)


def usage_summary(calls: Sequence[ModelUsage]) -> dict[str, Any]:
    """Sum the calls of a run: tokens, and `calls` by stage."""
    read, written = sum(call["input_tokens"] for call in calls), sum(call["output_tokens"] for call in calls)
    return {
        "input_tokens": read,
        "output_tokens": written,
        "total_tokens": read + written,
        "calls": dict(Counter(call["stage"] for call in calls)),
    }
