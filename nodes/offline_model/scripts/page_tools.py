"""Find the tools that fetch a web page by its URL, by name, description and schema, and fill them."""

import re
from collections.abc import Sequence
from datetime import date
from typing import Any

from toolweave.nodes.offline_model.tools.made_up import made_up_value
from toolweave.nodes.offline_model.tools.parameters import Parameter, name_words
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec
from toolweave.nodes.offline_model.tools.validation import wrong_parameters

_URL_NAMES = ("url", "urls", "uri", "link", "href", "address", "website")
# How well a word in a tool's name fits.
_FITTING = {
    **dict.fromkeys(("scrape", "fetch"), 10),
    **dict.fromkeys(("read", "markdown"), 8),
    **dict.fromkeys(("extract", "get", "crawl", "crawling", "retrieve", "load", "visit", "open", "download"), 5),
    **dict.fromkeys(("page", "webpage", "web", "website", "content", "contents", "url", "html", "text", "txt"), 2),
    **dict.fromkeys(("map", "search", "find", "list", "links", "screenshot", "image", "video", "transcript"), -12),
    **dict.fromkeys(("status", "check", "batch", "monitor", "agent", "research", "interact", "parse", "json"), -12),
    **dict.fromkeys(("post", "create", "add", "update", "delete", "remove", "upload", "submit", "send", "save"), -30),
}
_DESCRIBED = re.compile(
    r"\b(?:fetch|scrape|read|retrieve|extract|crawl|download|get)\w*\b.{0,60}\b(?:pages?|urls?|websites?|content|web)\b",
    re.IGNORECASE | re.DOTALL,
)
_DESCRIBED_FITS, _UNKNOWN_NEEDED = 4, -6
_READ_OF_DESCRIPTION = 300
# What is asked for where a tool lets one choose.
_PREFERRED: dict[str, Any] = {
    "formats": ["markdown"],
    **dict.fromkeys(("format", "output_format", "return_format", "extract_format"), "markdown"),
    **dict.fromkeys(("onlyMainContent", "only_main_content"), True),
}
_ASKING = frozenset(("prompt", "query", "question", "instruction", "instructions", "objective", "goal", "task"))
_ASKED = "Give the whole text of the page as markdown."


def page_tools(tools: Sequence[ToolSpec]) -> list[ToolSpec]:
    """List the tools that fetch a page, the most fitting first."""
    fits = [(fit, -place, tool) for place, tool in enumerate(tools) if (fit := _fit(tool)) > 0]
    return [tool for _, _, tool in sorted(fits, key=lambda one: one[:2], reverse=True)]


def fetch_arguments(tool: ToolSpec, url: str, today: date) -> dict[str, Any]:
    """Fill the URL, what says that markdown is wanted, and what else is required."""
    place = _url_parameter(tool)
    arguments: dict[str, Any] = {}
    for parameter in tool.parameters:
        if parameter is place:
            arguments[parameter.name] = [url] if parameter.kind == "array" else url
        elif parameter.name in _PREFERRED:
            arguments[parameter.name] = _PREFERRED[parameter.name]
        elif parameter.required:
            asked = parameter.name.lower() in _ASKING and not parameter.choices
            arguments[parameter.name] = _ASKED if asked else made_up_value(parameter, url, today)
    required = {parameter.name for parameter in tool.parameters if parameter.required}
    refused = wrong_parameters(tool.schema, arguments) - required
    return {name: value for name, value in arguments.items() if name not in refused}


def _fit(tool: ToolSpec) -> int:
    if _url_parameter(tool) is None:
        return 0
    fit = sum(_FITTING.get(word, 0) for word in dict.fromkeys(name_words(tool.name)))
    fit += _DESCRIBED_FITS if _DESCRIBED.search(tool.description[:_READ_OF_DESCRIPTION]) else 0
    return fit + sum(_UNKNOWN_NEEDED for parameter in tool.parameters if _is_unknown(parameter))


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
    """Tell of a required parameter whether there is nothing sensible to give for it."""
    return (
        parameter.required
        and parameter.name.lower() not in (*_URL_NAMES, *_ASKING)
        and parameter.name not in _PREFERRED
        and "default" not in parameter.schema
        and not parameter.choices
        and parameter.kind in ("string", "object", "any")
    )
