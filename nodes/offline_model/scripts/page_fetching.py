"""Fetch a page when that is the task: one tool after the other, until one of them brought content (A-04).

The task is known by its form: a system prompt that speaks of fetching a page with tools, a short message with one
URL, and a tool that takes a URL.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from langchain_core.messages import BaseMessage, SystemMessage

from toolweave.nodes.offline_model.conversation import Turn, call_key
from toolweave.nodes.offline_model.plain_words import shortened
from toolweave.nodes.offline_model.scripts.page_tools import fetch_arguments, page_tools
from toolweave.nodes.offline_model.small_talk import with_notice
from toolweave.nodes.offline_model.tools.tool_results import ToolResult, text_of
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

MOST_CALLS = 8
_URL = re.compile(r"https?://[^\s<>\"'“”]+")
_AT_THE_END = re.compile(r":\s+(https?://\S+)\s*\Z")
_TRAILING = ".,;:!?)]}"
_MOST_WORDS = 20
_TOLD = re.compile(r"(?=.*\bfetch)(?=.*\bpages?\b)(?=.*\btools?\b)", re.IGNORECASE | re.DOTALL)
_READ_OF_PROMPT = 600
_START = "start_index"
_GOES_ON = re.compile(rf"\b{_START} of (\d{{1,9}})\b")
_IS_KEPT = re.compile(r"\bwhole is kept\b", re.IGNORECASE)
_END_OF_RESULT = 1_000
_FEWEST_LETTERS = 40


@dataclass(frozen=True)
class NextStep:
    """The call to make, or else what to say."""

    call: tuple[str, dict[str, Any]] | None
    text: str = ""


def next_fetch(messages: Sequence[BaseMessage], turn: Turn, tools: Sequence[ToolSpec], today: date) -> NextStep | None:
    """Say how the fetching goes on; None when fetching a page is not the task."""
    url = _task(messages, turn)
    if url is None:
        return None
    able = page_tools(tools)
    for tool in able:
        call = tool.name, fetch_arguments(tool, url, today)
        result = turn.results.get(call_key(*call))
        if result is None and len(turn.results) < MOST_CALLS:
            return NextStep(call)
        if result is not None and _has_content(result):
            return _rest(tool, call[1], turn) or NextStep(None, with_notice(f"The page is there: {tool.name} gave it."))
    return NextStep(None, with_notice(_failure(url, able, turn)))


def _task(messages: Sequence[BaseMessage], turn: Turn) -> str | None:
    told = next((text_of(message.content) for message in messages if isinstance(message, SystemMessage)), "")
    if not _TOLD.match(told[:_READ_OF_PROMPT]):
        return None
    urls = dict.fromkeys(_URL.findall(turn.text))
    if len(urls) != 1 or len(turn.text.split()) > _MOST_WORDS:
        return None
    named = _AT_THE_END.search(turn.text)
    return named[1] if named else next(iter(urls)).rstrip(_TRAILING)


def _has_content(result: ToolResult) -> bool:
    return result.ok and sum(map(str.isalnum, result.text)) >= _FEWEST_LETTERS


def _rest(tool: ToolSpec, arguments: Mapping[str, Any], turn: Turn) -> NextStep | None:
    """Ask for the next piece of a page that a tool gives in pieces."""
    key = call_key(tool.name, arguments)
    while (result := turn.results.get(key)) is not None:
        end = result.text[-_END_OF_RESULT:]
        found = None if _IS_KEPT.search(end) else _GOES_ON.search(end)
        if found is None or not any(one.name == _START for one in tool.parameters):
            return None
        arguments = {**arguments, _START: int(found[1])}
        if (following := call_key(tool.name, arguments)) == key:
            return None
        key = following
    return NextStep((tool.name, dict(arguments))) if len(turn.results) < MOST_CALLS else None


def _failure(url: str, able: Sequence[ToolSpec], turn: Turn) -> str:
    if not able:
        return f"I could not fetch {url}: none of my tools takes the URL of a page."
    problems = dict.fromkeys(
        f"{result.name}: {shortened(result.problem.strip()) or 'it gave no content'}"
        for result in turn.results.values()
    )
    return f"I could not fetch {url}. {'; '.join(problems)}"
