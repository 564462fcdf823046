"""Keep what an endpoint says a streamed answer has cost: LangChain reads its tokens and drops the rest."""

from typing import Any

from langchain_core.outputs import ChatGenerationChunk
from langchain_openai import ChatOpenAI

REPORTED_COSTS = "reported_costs_usd"
"""The key of `response_metadata`; a list, because pieces of an answer are joined and numbers cannot be."""


class CostKeepingChatOpenAI(ChatOpenAI):
    """A ChatOpenAI whose streamed answers carry `usage.cost`, as OpenRouter reports it, in US dollars."""

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: dict[str, Any] | None
    ) -> ChatGenerationChunk | None:
        piece = super()._convert_chunk_to_generation_chunk(chunk, default_chunk_class, base_generation_info)
        usage = chunk.get("usage")
        cost = usage.get("cost") if isinstance(usage, dict) else None
        if piece is not None and cost is not None:
            piece.message.response_metadata[REPORTED_COSTS] = [cost]
        return piece
