"""Choose the tools that a model is offered at a turn: all of them, or the relevant ones of a large catalogue (D-2).

Endpoints take 128 tools at most, and models choose worse among many. Whatever is left out can still be called by its
name, and looked for with `find_tools`.
"""

import asyncio
import difflib
import math
import operator
import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from loguru import logger
from pydantic import Field

from toolweave.nodes.large_results import has_stored_results, read_tool_result
from toolweave.nodes.offline_model.english import STRONG_ACTIONS, STRONG_VERBS, noun_synonyms, stem, stems, words
from toolweave.nodes.tool_calls import requested_calls
from toolweave.nodes.tool_catalog import OpenAITool, ToolCatalog, openai_name_map, openai_tools
from toolweave.tool_config import ToolConfig

BM25_K1 = 1.2
BM25_B = 0.4
SYNONYM_WEIGHT = 0.6
MAX_TEXT_CHARS = 4_000
MAX_PARAMETERS = 200
SearchableTool = BaseTool | ToolConfig
_CAMEL_CASE_BREAK = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_UNSPACED_SCRIPT = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")


class ToolIndex:
    """An inverted index over a list of tools; building it takes some 50 µs per tool, a question well under 1 ms."""

    def __init__(self, tools: Sequence[SearchableTool]) -> None:
        self._size = len(tools)
        documents = [Counter(stems(" ".join(map(_split_words, _searchable_texts(tool))))) for tool in tools]
        lengths = [document.total() for document in documents]
        average = sum(lengths) / len(lengths) if lengths and any(lengths) else 1.0
        holders = Counter(word for document in documents for word in document)
        self._postings: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        for place, (document, length) in enumerate(zip(documents, lengths, strict=True)):
            damping = BM25_K1 * (1 - BM25_B + BM25_B * length / average)
            for word, count in document.items():
                rarity = math.log(1 + (len(documents) - holders[word] + 0.5) / (holders[word] + 0.5))
                self._postings[word].append((place, rarity * count * (BM25_K1 + 1) / (count + damping)))

    def rank(self, texts: Iterable[tuple[str, float]]) -> list[int]:
        """Give the places of the tools that fit, best first; equal ones keep their order.

        Args:
            texts: what is wanted, each text with its weight.
        """
        scores: defaultdict[int, float] = defaultdict(float)
        for word, weight in sorted(_word_weights(texts).items()):
            for place, score in self._postings.get(word, ()):
                scores[place] += weight * score
        return sorted(scores, key=lambda place: (-scores[place], place))

    def choose(self, texts: Iterable[tuple[str, float]], limit: int, first: Iterable[int] = ()) -> list[int]:
        """Give `most` places in their order: those in `first`, then tools that fit, then the others as they come."""
        return sorted(list(dict.fromkeys([*first, *self.rank(texts), *range(self._size)]))[:limit])


def _word_weights(texts: Iterable[tuple[str, float]]) -> dict[str, float]:
    wanted: defaultdict[str, float] = defaultdict(float)
    for text, weight in texts:
        spaced = _split_words(text)
        for word in stems(spaced):
            wanted[word] = max(wanted[word], weight)
        for related in {stem(other) for word in words(spaced) for other in _related_words(word)}:
            wanted[related] = max(wanted[related], weight * SYNONYM_WEIGHT)
    return wanted


def _related_words(word: str) -> Iterator[str]:
    """Give words of the same meaning: what one tool calls "delete" another calls "remove"."""
    yield from noun_synonyms(word)
    for action in STRONG_ACTIONS.get(word, ()):
        yield from words(STRONG_VERBS[action])


def _split_words(text: str) -> str:
    """Take camel case apart into words, and scripts without spaces into letters."""
    return _UNSPACED_SCRIPT.sub(r" \g<0> ", _CAMEL_CASE_BREAK.sub(" ", text[:MAX_TEXT_CHARS]))


def _searchable_texts(tool: SearchableTool) -> Iterator[str]:
    yield tool.name
    yield tool.description
    for name, parameter in list(_tool_parameters(tool).items())[:MAX_PARAMETERS]:
        yield str(name)
        if isinstance(parameter, dict) and isinstance(described := parameter.get("description"), str):
            yield described


def _tool_parameters(tool: SearchableTool) -> dict[str, Any]:
    if isinstance(tool, ToolConfig):
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
    """What a catalogue offers to a model: at most `max_tools` tools, and our own beside them where they are of use.

    `find_tools` is offered where tools had to be left out, `read_tool_result` once a result was too long to show.

    Raises:
        ValueError: `max_tools` is not from 1 to 128.
    """

    def __init__(self, catalog: ToolCatalog, max_tools: int = DEFAULT_MAX_TOOLS) -> None:
        if not 1 <= max_tools <= ENDPOINT_MAX_TOOLS:
            raise ValueError(f"max_tools must be from 1 to {ENDPOINT_MAX_TOOLS}")
        self.catalog = catalog
        self._max_tools = max_tools
        self._indexed: Sequence[BaseTool] = ()
        self._index = ToolIndex(())
        self._find_tools = self._make_find_tools()

    @property
    def internal_tools(self) -> tuple[BaseTool, ...]:
        """Return our own tools, for the node that carries out calls; the catalogue's of the same name come first."""
        return (self._find_tools, read_tool_result)

    async def select(self, tools: Sequence[BaseTool], messages: Sequence[AnyMessage]) -> list[OpenAITool]:
        """Choose among the catalogue's `tools` by a dialogue, in the catalogue's order and the OpenAI format."""
        own = [read_tool_result] if has_stored_results(messages) else []
        names = openai_name_map(tools)
        if len(tools) + len(own) <= self._max_tools:
            return openai_tools([*tools, *_without_name_clashes(own, names)], all_tools=tools)
        own = _without_name_clashes([self._find_tools, *own], names)
        room = max(1, self._max_tools - len(own))
        in_use = set(_tool_names_in_use(names, messages))
        using = [place for place, tool in enumerate(tools) if tool.name in in_use]
        places = (await self._index_of(tools)).choose(relevant_texts(messages), room, using)
        logger.debug("{} of {} tools are offered to the model, {} left out", room, len(tools), len(tools) - room)
        return openai_tools([*(tools[place] for place in places), *own], all_tools=tools)

    async def _index_of(self, tools: Sequence[BaseTool]) -> ToolIndex:
        """Return the index of the tools' words, made once as long as they are the very same."""
        if len(tools) != len(self._indexed) or not all(map(operator.is_, tools, self._indexed)):
            self._index, self._indexed = await asyncio.to_thread(ToolIndex, tools), tuple(tools)
        return self._index

    def _make_find_tools(self) -> BaseTool:
        async def find_tools(
            query: Annotated[str, Field(description="What the tool should do, in a few words.", min_length=1)],
        ) -> tuple[str, dict[str, Any]]:
            """Find further tools: more are available than are shown. The found ones can be called at the next turn."""
            tools = await self.catalog.tools()
            places = (await self._index_of(tools)).rank([(query, 1.0)])
            found = [tools[place] for place in places[:MAX_FOUND_TOOLS]]
            lines = [f"{tool.name}: {' '.join(tool.description.split())[:MAX_SUMMARY_CHARS]}" for tool in found]
            return "\n".join(lines) or "No tool fits. Try other words.", {FOUND_KEY: [tool.name for tool in found]}

        return StructuredTool.from_function(
            coroutine=find_tools, name=FIND_TOOLS_NAME, response_format="content_and_artifact"
        )


def unknown_tool_text(name: str, tools: Sequence[BaseTool]) -> str:
    """Say that there is no tool of that name, and which ones there are (A-08)."""
    names = [tool.name for tool in tools]
    if len(names) > DEFAULT_MAX_TOOLS:
        near = difflib.get_close_matches(name[:MAX_NAME_CHARS], names, n=MAX_FOUND_TOOLS, cutoff=0.5)
        alike = f"Similar ones: {', '.join(near)}. " if near else ""
        return f"There is no tool {name[:MAX_NAME_CHARS]!r}. {alike}Look for one with {FIND_TOOLS_NAME}."
    return f"There is no tool {name[:MAX_NAME_CHARS]!r}. Available tools: {', '.join(names) or 'none'}."


def relevant_texts(messages: Sequence[AnyMessage]) -> Iterator[tuple[str, float]]:
    """Give what a dialogue is about: the newest words of the user, then what failed and what the model plans."""
    said = [message.text for message in messages if isinstance(message, HumanMessage)]
    yield from zip(reversed(said), _USER_WEIGHTS, strict=False)
    for message in _messages_since_input(messages):
        if isinstance(message, ToolMessage) and message.status == "error":
            yield message.text, _ERROR_WEIGHT
        elif isinstance(message, AIMessage) and message.text:
            yield message.text, _PLAN_WEIGHT


def _tool_names_in_use(names: Mapping[str, str], messages: Sequence[AnyMessage]) -> Iterator[str]:
    """Give the tools' own names of those that were called, and of those that were found, since the last input."""
    for message in _messages_since_input(messages):
        for call in requested_calls(message):
            yield names.get(call["name"], call["name"])
        if isinstance(message, ToolMessage) and isinstance(message.artifact, dict):
            yield from message.artifact.get(FOUND_KEY, ())


def _messages_since_input(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    inputs = [place for place, message in enumerate(messages) if isinstance(message, HumanMessage)]
    return messages[inputs[-1] :] if inputs else messages


def _without_name_clashes(own: Sequence[BaseTool], names: Container[str]) -> list[BaseTool]:
    """Leave out those of our tools whose names models get for others: `read.tool_result` becomes one of ours."""
    return [tool for tool in own if tool.name not in names]
