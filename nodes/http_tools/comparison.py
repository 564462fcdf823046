"""Compare the request that a model wrote with the one its arguments make, and describe how to repair it (W-05).

Only the request made from arguments is sent. So a text may replace a number here, and headers are ignored. If a model
wrote only a request, its arguments are inferred from it.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

import orjson

from toolweave.errors import OutboundRefused
from toolweave.nodes.http_tools.requests import HTTPRequestSpec, WrongArguments, build_request, value_text
from toolweave.outbound_policy import OutboundTarget, parse_target
from toolweave.schema import Schema
from toolweave.tool_config import PLACEHOLDER, PathSteps, ToolConfig

MAX_DIFFERENCES = 8
_MAX_VALUE_CHARS = 300
_DEFINITION_KEYS = ("$schema", "$defs", "definitions")
MAX_CHECK_STEPS = 20_000
"""Cost limit of checking all readings of one request against the tool's input_schema."""
_PATH_ONLY = re.compile(r"/(?!/)")


def request_differences(built: HTTPRequestSpec, written: HTTPRequestSpec) -> list[str]:
    """Return how `written` differs from `built` in method, URL, query and body; [] if they are the same request.

    A query in the URL counts as query, and a URL may start with its path. Null counts as absent; "5" equals 5. At most
    `MAX_DIFFERENCES` are returned.
    """
    own = parse_target(built.url)
    try:
        theirs = _flatten_request(written, _parse_url(own, written.url))
    except OutboundRefused as error:
        return [f"url cannot be used: {error}"]
    ours = _flatten_request(built, own)
    places = (place for place in ours | theirs if ours.get(place) != theirs.get(place))
    return [
        f"{place} must be {_display_value(ours.get(place))}, not {_display_value(theirs.get(place))}"
        for place in islice(places, MAX_DIFFERENCES)
    ]


def _display_value(text: str | None) -> str:
    return "absent" if text is None else text[:_MAX_VALUE_CHARS]


def _flatten_request(request: HTTPRequestSpec, target: OutboundTarget) -> dict[str, str]:
    """Return every value of a request as text, by its place; null and empty values are left out."""
    query = {name: ",".join(texts) for name, texts in _query_texts(request, target).items()}
    url = f"{target.scheme}://{target.authority}{_comparable_path(target)}"
    body = None if request.body == "" else request.body
    pending: list[tuple[str, Any]] = [("method", request.method), ("url", url), ("query", query), ("body", body)]
    found: dict[str, str] = {}
    for place, raw in pending:  # the loop appends to it
        value = _parse_json(raw) if isinstance(raw, str) and raw.lstrip()[:1] in ("{", "[") else raw
        if isinstance(value, dict):
            pending += [(f"{place}.{name}"[:_MAX_VALUE_CHARS], item) for name, item in value.items()]
        elif isinstance(value, list):
            pending += [(f"{place}[{index}]"[:_MAX_VALUE_CHARS], item) for index, item in enumerate(value)]
        elif value is not None:
            found[place] = value_text(value)
    return found


def _parse_url(own: OutboundTarget, url: str) -> OutboundTarget:
    """Parse a URL, which may start with its path; raises OutboundRefused."""
    return parse_target(f"{own.scheme}://{own.authority}{url}" if _PATH_ONLY.match(url) else url)


def _query_texts(request: HTTPRequestSpec, target: OutboundTarget) -> dict[str, list[str]]:
    """Return the texts of a request's query by name, from its URL and its query field, without null."""
    found: dict[str, list[str]] = {}
    for name, text in parse_qsl(target.path.partition("?")[2], keep_blank_values=True):
        found.setdefault(name, []).append(text)
    for name, value in request.query.items():
        texts = [value_text(item) for item in (value if isinstance(value, list) else [value]) if item is not None]
        # A parameter in both places counts once.
        if texts != found.get(name, []):
            found[name] = found.get(name, []) + texts
    return found


def _comparable_path(target: OutboundTarget) -> str:
    """Return a path for comparison: without the trailing slash, which only the configuration decides."""
    return _normalize_path(target.path.partition("?")[0].removesuffix("/"))


def _normalize_path(path: str) -> str:
    """Return a path in one of its possible encodings."""
    return "/".join(quote(unquote(segment), safe="") for segment in path.split("/"))


def _parse_json(text: str) -> Any:
    """Return the JSON in a text, or the text if it is not JSON."""
    try:
        return orjson.loads(text)
    except ValueError:
        return text


def infer_arguments(tool: ToolConfig, written: HTTPRequestSpec) -> dict[str, Any]:
    """Return the arguments that make the request a model wrote.

    Headers are read only if the configuration maps fields to them. Null counts as absent.

    Raises:
        WrongArguments: no arguments make it: it has another target, or values that the tool's configuration does not
            name.
    """
    own = parse_target(tool.api.base_url)
    try:
        target = _parse_url(own, written.url)
    except OutboundRefused as error:
        raise WrongArguments([f"url cannot be used: {error}"]) from None
    in_path = _placeholder_values(own.path.removesuffix("/") + tool.api.path, _comparable_path(target))
    if in_path is None:
        raise WrongArguments([f"url must be {tool.api.base_url}{tool.api.path} with values for the placeholders"])
    # References in fields need the definitions of the whole schema.
    shared = {key: tool.input_schema[key] for key in _DEFINITION_KEYS if key in tool.input_schema}
    schema, steps = Schema(shared | {"properties": tool.input_fields}, well_formed=True), [MAX_CHECK_STEPS]
    found = {
        name: _first_valid_reading(schema, steps, name, value)
        for name, value in _written_values(tool, written, target, in_path)
        if value is not None
    }
    if problems := request_differences(build_request(tool, found), written):
        raise WrongArguments(problems)
    return found


def _written_values(
    tool: ToolConfig, written: HTTPRequestSpec, target: OutboundTarget, in_path: dict[str, str]
) -> Iterator[tuple[str, Any]]:
    query = _query_texts(written, target)
    headers = {name.lower(): text for name, text in written.headers.items()}
    body = _parse_json(written.body) if isinstance(written.body, str) else written.body
    for name, place in tool.request_locations.items():
        match place.part:
            case "path":
                yield name, in_path.get(place.name)
            case "query":
                values = query.get(place.name, [])
                yield name, values if len(values) > 1 else next(iter(values), None)
            case "header":
                yield name, headers.get(place.name.lower())
            case "body":
                yield name, _value_at(body, place.steps)


def _placeholder_values(template: str, path: str) -> dict[str, str] | None:
    """Return the values of a template's placeholders in a path; None if the path does not match."""
    parts = PLACEHOLDER.split(template.removesuffix("/"))
    names, literals = parts[1::2], [re.escape(_normalize_path(literal)) for literal in parts[::2]]
    # Shortest match in atomic groups: no backtracking when one segment has many placeholders.
    inner = [f"(?>([^/]+?){literal})" for literal in literals[1:-1]]
    last = [f"([^/]+){literals[-1]}"] if names else []
    found = re.fullmatch("".join([literals[0], *inner, *last]), path)
    return dict(zip(names, map(unquote, found.groups()), strict=True)) if found else None


def _value_at(body: Any, steps: PathSteps) -> Any:
    """Return the value at the end of `steps` in a body; None if there is none."""
    try:
        for step in steps:
            body = body[step]
    except (KeyError, IndexError, TypeError):
        return None
    return body


def _first_valid_reading(schema: Schema, steps: list[int], name: str, written: Any) -> Any:
    """Return the first reading of a written value that the field's schema accepts; the value itself if there is none.

    A text stays a text if the schema accepts it, else it is read as JSON: 5 from "5", true from "true".
    """
    items = written if isinstance(written, list) else [written]
    for read in (lambda item: item, lambda item: _parse_json(item) if isinstance(item, str) else item, value_text):
        many = [read(item) for item in items]
        for reading in [many] if items is written else [many[0], many]:
            if not schema.problems({name: reading}, steps):
                return reading
    return written
