"""Fetch a page when that is the task: one tool after the other, until one of them brought content (A-04).

The task is known by its form: a system prompt that speaks of fetching a page with tools, a short message with one
URL, and a tool that takes a URL.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from langchain_core.messages import BaseMessage, SystemMessage

from toolweave.nodes.offline_model.dialogue import Reply
from toolweave.nodes.offline_model.results import NOTICE, Turn, call_key, shortened, text_of
from toolweave.nodes.offline_model.structured import made_up_value
from toolweave.nodes.offline_model.tools import Parameter, ToolSpec, name_words, wrong_parameters

_MOST_CALLS = 8
_URL = re.compile(r"https?://[^\s<>\"'“”]+")
_URL_AT_END = re.compile(r":\s+(https?://\S+)\s*\Z")
_MOST_WORDS = 20
_TASK = re.compile(r"(?=.*\bfetch)(?=.*\bpages?\b)(?=.*\btools?\b)", re.IGNORECASE | re.DOTALL)
_START = "start_index"
_GOES_ON = re.compile(rf"\b{_START} of (\d{{1,9}})\b")
_IS_KEPT = re.compile(r"\bwhole is kept\b", re.IGNORECASE)
_FEWEST_LETTERS = 40

_URL_NAMES = ("url", "urls", "uri", "link", "href", "address", "website")
# How well a word in a tool's name fits.
_FITTING = {
    **dict.fromkeys(("scrape", "fetch"), 10),
    **dict.fromkeys(("read", "markdown"), 8),
    **dict.fromkeys(("extract", "get", "crawl", "retrieve", "load", "visit", "open", "download"), 5),
    **dict.fromkeys(("page", "webpage", "web", "website", "content", "url", "html", "text"), 2),
    **dict.fromkeys(("map", "search", "find", "list", "screenshot", "status", "check", "batch", "agent"), -12),
    **dict.fromkeys(("post", "create", "add", "update", "delete", "remove", "upload", "submit", "send", "save"), -30),
}
_DESCRIBED = re.compile(
    r"\b(?:fetch|scrape|read|retrieve|extract|crawl|download|get)\w*\b.{0,60}\b(?:pages?|urls?|websites?|content|web)\b",
    re.IGNORECASE | re.DOTALL,
)
_PREFERRED: dict[str, Any] = {
    "formats": ["markdown"],
    **dict.fromkeys(("format", "output_format"), "markdown"),
    **dict.fromkeys(("onlyMainContent", "only_main_content"), True),
}
_ASKING = ("prompt", "query", "question", "instruction", "instructions", "objective", "goal", "task")
_INSTRUCTION = "Give the whole text of the page as markdown."


def next_fetch(messages: Sequence[BaseMessage], turn: Turn, tools: Sequence[ToolSpec], today: date) -> Reply | None:
    """Return the next call or the last words of the fetching; None when fetching a page is not the task."""
    url = _task(messages, turn)
    if url is None:
        return None
    able = _page_tools(tools)
    for tool in able:
        call = tool.name, _arguments(tool, url, today)
        result = turn.results.get(call_key(*call))
        if result is None and len(turn.results) < _MOST_CALLS:
            return Reply(calls=(call,))
        if result is not None and result.ok and sum(map(str.isalnum, result.text)) >= _FEWEST_LETTERS:
            rest = _next_piece(tool, call[1], turn)
            return Reply(calls=(rest,)) if rest else Reply(f"The page is there: {tool.name} gave it.\n{NOTICE}")
    if not able:
        return Reply(f"I could not fetch {url}: none of my tools takes the URL of a page.\n{NOTICE}")
    problems = (
        f"{one.name}: {shortened(one.problem.strip()) or 'it gave no content'}" for one in turn.results.values()
    )
    return Reply(f"I could not fetch {url}. {'; '.join(dict.fromkeys(problems))}\n{NOTICE}")


def _task(messages: Sequence[BaseMessage], turn: Turn) -> str | None:
    prompt = next((text_of(message.content) for message in messages if isinstance(message, SystemMessage)), "")
    urls = dict.fromkeys(_URL.findall(turn.text))
    if not _TASK.match(prompt[:600]) or len(urls) != 1 or len(turn.text.split()) > _MOST_WORDS:
        return None
    named = _URL_AT_END.search(turn.text)
    return named[1] if named else next(iter(urls)).rstrip(".,;:!?)]}")


def _next_piece(tool: ToolSpec, arguments: Mapping[str, Any], turn: Turn) -> tuple[str, dict[str, Any]] | None:
    """Return the call for the next piece of a page that a tool gives in pieces."""
    key = call_key(tool.name, arguments)
    while (result := turn.results.get(key)) is not None:
        end = result.text[-1_000:]
        found = None if _IS_KEPT.search(end) else _GOES_ON.search(end)
        if found is None or not any(one.name == _START for one in tool.parameters):
            return None
        arguments = {**arguments, _START: int(found[1])}
        if (following := call_key(tool.name, arguments)) == key:
            return None
        key = following
    return (tool.name, dict(arguments)) if len(turn.results) < _MOST_CALLS else None


def _page_tools(tools: Sequence[ToolSpec]) -> list[ToolSpec]:
    """List the tools that fetch a page by its URL, the most fitting first."""
    fits = [(fit, -place, tool) for place, tool in enumerate(tools) if (fit := _fit(tool)) > 0]
    return [tool for _, _, tool in sorted(fits, key=lambda one: one[:2], reverse=True)]


def _fit(tool: ToolSpec) -> int:
    if _url_parameter(tool) is None:
        return 0
    fit = sum(_FITTING.get(word, 0) for word in dict.fromkeys(name_words(tool.name)))
    return fit + 4 * bool(_DESCRIBED.search(tool.description[:300])) - 6 * sum(map(_is_unknown, tool.parameters))


def _arguments(tool: ToolSpec, url: str, today: date) -> dict[str, Any]:
    """Fill the URL, what says that markdown is wanted, and what else is required."""
    place = _url_parameter(tool)
    arguments: dict[str, Any] = {}
    for parameter in tool.parameters:
        if parameter is place:
            arguments[parameter.name] = [url] if parameter.kind == "array" else url
        elif parameter.name in _PREFERRED:
            arguments[parameter.name] = _PREFERRED[parameter.name]
        elif parameter.required:
            asks = parameter.name.lower() in _ASKING and not parameter.choices
            arguments[parameter.name] = _INSTRUCTION if asks else made_up_value(parameter, url, today)
    required = {parameter.name for parameter in tool.parameters if parameter.required}
    refused = wrong_parameters(tool.schema, arguments) - required
    return {name: value for name, value in arguments.items() if name not in refused}


def _url_parameter(tool: ToolSpec) -> Parameter | None:
    """Find the parameter that takes the address: a required one before others, a text before a list."""
    found = [
        parameter
        for parameter in tool.parameters
        if parameter.kind in ("string", "array", "any")
        and (parameter.name.lower() in _URL_NAMES or (parameter.role == "url" and parameter.kind == "string"))
    ]
    return min(found, key=lambda one: (not one.required, one.kind == "array"), default=None)


def _is_unknown(parameter: Parameter) -> bool:
    """Say of a required parameter whether there is nothing sensible to give for it."""
    named = parameter.name.lower() in (*_URL_NAMES, *_ASKING) or parameter.name in _PREFERRED
    given = named or "default" in parameter.schema or bool(parameter.choices)
    return parameter.required and not given and parameter.kind in ("string", "object", "any")
