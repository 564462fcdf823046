"""Give the words, in singular and plural, for the things that the bound tools act on."""

from collections.abc import Sequence
from functools import lru_cache

from toolweave.nodes.offline_model.language.nouns import either_of
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec


@lru_cache(maxsize=256)
def tool_nouns(tool: ToolSpec) -> str:
    """Give the alternative of the words for what one tool acts on, synonyms included."""
    return either_of(tool.nouns_and_synonyms)


@lru_cache(maxsize=64)
def all_nouns(tools: tuple[ToolSpec, ...]) -> str:
    """Give the alternative of the words for what any of the tools acts on."""
    return either_of(surface_nouns(tools))


def surface_nouns(tools: Sequence[ToolSpec]) -> frozenset[str]:
    """List the singular words for what the tools act on."""
    return frozenset(noun for tool in tools for noun in tool.nouns_and_synonyms)
