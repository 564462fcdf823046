"""Select the tools that a model gets at a turn: all of them, or the relevant ones of a large catalogue (D-2).

Endpoints accept at most 128 tools, and models choose worse among many. The model can still call a tool that was left
out by its name, and search for it with `find_tools`.
"""

import asyncio
import difflib
import math
import operator
import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Union

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from loguru import logger
from pydantic import Field

from toolweave.nodes.large_results import has_stored_results, read_tool_result
from toolweave.nodes.offline_model.english import STRONG_ACTIONS, STRONG_VERBS, noun_synonyms, stem, stems, words
from toolweave.nodes.tool_calls import requested_calls
from toolweave.nodes.tool_catalog import OpenAITool, ToolCatalog, openai_name_map, openai_tools

if TYPE_CHECKING:
    from toolweave.tool_config import ToolConfig

BM25_K1 = 1.2
BM25_B = 0.4
SYNONYM_WEIGHT = 0.6
MAX_TEXT_CHARS = 4_000
MAX_PARAMETERS = 200
SearchableTool = Union[BaseTool, "ToolConfig"]
_CAMEL_CASE_BREAK = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_UNSPACED_SCRIPT = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")


class ToolIndex:
    """A BM25 index of tools by their words; building takes about 50 µs per tool, a query well under 1 ms."""

    def __init__(self, tools: Sequence[SearchableTool]) -> None:
        self._size = len(tools)
        documents = [Counter(stems(" ".join(map(_split_words, _searchable_texts(tool))))) for tool in tools]
        lengths = [document.total() for document in documents]
        average = sum(lengths) / len(lengths) if lengths and any(lengths) else 1.0
        documents_with = Counter(word for document in documents for word in document)
        self._postings: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        for index, (document, length) in enumerate(zip(documents, lengths, strict=True)):
            damping = BM25_K1 * (1 - BM25_B + BM25_B * length / average)
            for word, count in document.items():
                rarity = math.log(1 + (len(documents) - documents_with[word] + 0.5) / (documents_with[word] + 0.5))
                self._postings[word].append((index, rarity * count * (BM25_K1 + 1) / (count + damping)))

    def rank(self, texts: Iterable[tuple[str, float]]) -> list[int]:
        """Return the indexes of matching tools, best first; tools with equal scores keep their order.

        Args:
            texts: the texts of the query, each with its weight.
        """
        scores: defaultdict[int, float] = defaultdict(float)
        for word, weight in sorted(_word_weights(texts).items()):
            for index, score in self._postings.get(word, ()):
                scores[index] += weight * score
        return sorted(scores, key=lambda index: (-scores[index], index))

    def choose(self, texts: Iterable[tuple[str, float]], limit: int, first: Iterable[int] = ()) -> list[int]:
        """Return the sorted indexes of at most `limit` tools: those in `first`, then matches by rank, then others."""
        return sorted(list(dict.fromkeys([*first, *self.rank(texts), *range(self._size)]))[:limit])


class CachedIndex:
    """The index of the tools that were indexed last."""

    def __init__(self) -> None:
        self._last: tuple[Sequence[SearchableTool], ToolIndex] = ((), ToolIndex(()))

    async def get(self, tools: Sequence[SearchableTool]) -> ToolIndex:
        """Return the index of the tools, which is reused while they are the same objects."""
        indexed, index = self._last
        if len(tools) != len(indexed) or not all(map(operator.is_, tools, indexed)):
            index = await asyncio.to_thread(ToolIndex, tools)
            self._last = tuple(tools), index
        return index


def _word_weights(texts: Iterable[tuple[str, float]]) -> dict[str, float]:
    weights: defaultdict[str, float] = defaultdict(float)
    for text, weight in texts:
        spaced = _split_words(text)
        for word in stems(spaced):
            weights[word] = max(weights[word], weight)
        for related in {stem(other) for word in words(spaced) for other in _related_words(word)}:
            weights[related] = max(weights[related], weight * SYNONYM_WEIGHT)
    return weights


def _related_words(word: str) -> Iterator[str]:
    """Yield synonyms: one tool uses "delete" where another uses "remove"."""
    yield from noun_synonyms(word)
    for action in STRONG_ACTIONS.get(word, ()):
        yield from words(STRONG_VERBS[action])


def _split_words(text: str) -> str:
    """Put spaces between the words of camel case, and around each letter of scripts without spaces."""
    return _UNSPACED_SCRIPT.sub(r" \g<0> ", _CAMEL_CASE_BREAK.sub(" ", text[:MAX_TEXT_CHARS]))


def _searchable_texts(tool: SearchableTool) -> Iterator[str]:
    yield tool.name
    yield tool.description
    for name, parameter in list(_tool_parameters(tool).items())[:MAX_PARAMETERS]:
        yield str(name)
        if isinstance(parameter, dict) and isinstance(description := parameter.get("description"), str):
            yield description


def _tool_parameters(tool: SearchableTool) -> dict[str, Any]:
    if not isinstance(tool, BaseTool):
        return tool.input_fields
    schema = tool.args_schema
    return schema.get("properties", {}) if isinstance(schema, dict) else tool.args


DEFAULT_MAX_TOOLS = 64
ENDPOINT_MAX_TOOLS = 128
FIND_TOOLS_NAME = "find_tools"
FOUND_KEY = "found_tools"
MAX_FOUND_TOOLS = 10
MAX_SUMMARY_CHARS = 200
MAX_NAME_CHARS = 128
_USER_WEIGHTS = (1.0, 0.5, 0.25)
_ERROR_WEIGHT = 0.4
_PLAN_WEIGHT = 0.4


class ToolSelector:
    """Selects at most `max_tools` of a catalogue's tools for each turn of the model.

    It adds `find_tools` if tools are left out, and `read_tool_result` once a result was cut.

    Raises:
        ValueError: `max_tools` is not from 1 to 128.
    """

    def __init__(self, catalog: ToolCatalog, max_tools: int = DEFAULT_MAX_TOOLS) -> None:
        if not 1 <= max_tools <= ENDPOINT_MAX_TOOLS:
            raise ValueError(f"max_tools must be from 1 to {ENDPOINT_MAX_TOOLS}")
        self.catalog = catalog
        self._max_tools = max_tools
        self._index = CachedIndex()
        self._find_tools = self._make_find_tools()

    @property
    def internal_tools(self) -> tuple[BaseTool, ...]:
        """Return our own tools that the tools node must execute; a catalogue tool of the same name takes precedence."""
        return (self._find_tools, read_tool_result)

    async def select(self, tools: Sequence[BaseTool], messages: Sequence[AnyMessage]) -> list[OpenAITool]:
        """Return the relevant ones of the catalogue's `tools`, in the catalogue's order and the OpenAI format."""
        internal = [read_tool_result] if has_stored_results(messages) else []
        names = openai_name_map(tools)
        if len(tools) + len(internal) <= self._max_tools:
            return openai_tools([*tools, *_without_name_clashes(internal, names)], all_tools=tools)
        internal = _without_name_clashes([self._find_tools, *internal], names)
        limit = max(1, self._max_tools - len(internal))
        in_use = set(_tool_names_in_use(names, messages))
        used = [place for place, tool in enumerate(tools) if tool.name in in_use]
        places = (await self._index.get(tools)).choose(relevant_texts(messages), limit, used)
        logger.debug("selected {} of {} tools for the model, left out {}", limit, len(tools), len(tools) - limit)
        return openai_tools([*(tools[place] for place in places), *internal], all_tools=tools)

    def _make_find_tools(self) -> BaseTool:
        async def find_tools(
            query: Annotated[str, Field(description="What the tool should do, in a few words.", min_length=1)],
        ) -> tuple[str, dict[str, Any]]:
            """Find further tools: more are available than are shown. The found ones can be called at the next turn."""
            tools = await self.catalog.tools()
            places = (await self._index.get(tools)).rank([(query, 1.0)])
            found = [tools[place] for place in places[:MAX_FOUND_TOOLS]]
            lines = [f"{tool.name}: {' '.join(tool.description.split())[:MAX_SUMMARY_CHARS]}" for tool in found]
            return "\n".join(lines) or "No tool fits. Try other words.", {FOUND_KEY: [tool.name for tool in found]}

        return StructuredTool.from_function(
            coroutine=find_tools, name=FIND_TOOLS_NAME, response_format="content_and_artifact"
        )


def unknown_tool_text(name: str, tools: Sequence[BaseTool]) -> str:
    """Return an error for a call of an unknown tool, with the available or similar names (A-08)."""
    names = [tool.name for tool in tools]
    if len(names) > DEFAULT_MAX_TOOLS:
        similar = difflib.get_close_matches(name[:MAX_NAME_CHARS], names, n=MAX_FOUND_TOOLS, cutoff=0.5)
        hint = f"Similar ones: {', '.join(similar)}. " if similar else ""
        return f"There is no tool {name[:MAX_NAME_CHARS]!r}. {hint}Look for one with {FIND_TOOLS_NAME}."
    return f"There is no tool {name[:MAX_NAME_CHARS]!r}. Available tools: {', '.join(names) or 'none'}."


def relevant_texts(messages: Sequence[AnyMessage]) -> Iterator[tuple[str, float]]:
    """Yield the weighted texts that show which tools are relevant: user messages, tool errors, the model's plans."""
    user_texts = [message.text for message in messages if isinstance(message, HumanMessage)]
    yield from zip(reversed(user_texts), _USER_WEIGHTS, strict=False)
    for message in _messages_since_input(messages):
        if isinstance(message, ToolMessage) and message.status == "error":
            yield message.text, _ERROR_WEIGHT
        elif isinstance(message, AIMessage) and message.text:
            yield message.text, _PLAN_WEIGHT


def _tool_names_in_use(names: Mapping[str, str], messages: Sequence[AnyMessage]) -> Iterator[str]:
    """Yield the own names of tools that were called or found since the last user message."""
    for message in _messages_since_input(messages):
        for call in requested_calls(message):
            yield names.get(call["name"], call["name"])
        if isinstance(message, ToolMessage) and isinstance(message.artifact, dict):
            yield from message.artifact.get(FOUND_KEY, ())


def _messages_since_input(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    user_messages = [place for place, message in enumerate(messages) if isinstance(message, HumanMessage)]
    return messages[user_messages[-1] :] if user_messages else messages


def _without_name_clashes(tools: Sequence[BaseTool], names: Container[str]) -> list[BaseTool]:
    """Drop our tools whose name a rewritten name of another tool equals, such as `read.tool_result`."""
    return [tool for tool in tools if tool.name not in names]
