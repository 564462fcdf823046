"""Compare the request a model has written with the one its arguments make, in words that help it to repair them (W-05).

Only what the arguments make is ever sent, so a text may stand for a number here, and headers are not looked at.
Where a model writes a request only, the arguments that make it are read from it.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

import orjson

from toolweave.errors import OutboundRefused
from toolweave.nodes.http_tools.requests import HTTPRequestSpec, WrongArguments, build_request, value_text
from toolweave.outbound_policy import OutboundTarget, read_target
from toolweave.schema import Schema
from toolweave.tool_config import PLACEHOLDER, Steps, ToolConfig

MAX_DIFFERENCES = 8
_MAX_VALUE_CHARS = 300
_DEFINITION_KEYS = ("$schema", "$defs", "definitions")
MAX_CHECK_STEPS = 20_000
"""What checking all readings of one request against the tool's input_schema may cost."""
_PATH_ONLY = re.compile(r"/(?!/)")


def differences(built: HTTPRequestSpec, written: HTTPRequestSpec) -> list[str]:
    """Name in what `written` is another request than `built`: method, URL, query and body; [] if it is the same.

    A query within the URL counts as query, and a URL may begin with its path. Null counts as absent; "5" equals 5.
    At most `MOST_DIFFERENCES` are named.
    """
    own = read_target(built.url)
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
    """Write every value of a request as text under its place; what is null or empty has none."""
    query = {name: ",".join(texts) for name, texts in _query_texts(request, target).items()}
    url = f"{target.scheme}://{target.authority}{_comparable_path(target)}"
    body = None if request.body == "" else request.body
    left: list[tuple[str, Any]] = [("method", request.method), ("url", url), ("query", query), ("body", body)]
    found: dict[str, str] = {}
    for place, given in left:  # which grows meanwhile
        value = _parse_json(given) if isinstance(given, str) and given.lstrip()[:1] in ("{", "[") else given
        if isinstance(value, dict):
            left += [(f"{place}.{name}"[:_MAX_VALUE_CHARS], item) for name, item in value.items()]
        elif isinstance(value, list):
            left += [(f"{place}[{index}]"[:_MAX_VALUE_CHARS], item) for index, item in enumerate(value)]
        elif value is not None:
            found[place] = value_text(value)
    return found


def _parse_url(own: OutboundTarget, url: str) -> OutboundTarget:
    """Read a URL, which may begin with its path; raises OutboundRefused."""
    return read_target(f"{own.scheme}://{own.authority}{url}" if _PATH_ONLY.match(url) else url)


def _query_texts(request: HTTPRequestSpec, target: OutboundTarget) -> dict[str, list[str]]:
    """Give the texts of a request's query by name, those within its URL and the others; null is none."""
    found: dict[str, list[str]] = {}
    for name, text in parse_qsl(target.path.partition("?")[2], keep_blank_values=True):
        found.setdefault(name, []).append(text)
    for name, value in request.query.items():
        texts = [value_text(item) for item in (value if isinstance(value, list) else [value]) if item is not None]
        # The same parameter in both places is still one.
        if texts != found.get(name, []):
            found[name] = found.get(name, []) + texts
    return found


def _comparable_path(target: OutboundTarget) -> str:
    """Give a path as it is compared: a slash at its end comes from the configuration alone."""
    return _normalize_path(target.path.partition("?")[0].removesuffix("/"))


def _normalize_path(path: str) -> str:
    """Encode the characters of a path in one of the ways in which it can be written."""
    return "/".join(quote(unquote(segment), safe="") for segment in path.split("/"))


def _parse_json(text: str) -> Any:
    """Read a text as the JSON in it; as it is if there is none."""
    try:
        return orjson.loads(text)
    except ValueError:
        return text


def infer_arguments(tool: ToolConfig, written: HTTPRequestSpec) -> dict[str, Any]:
    """Return the arguments that make the request a model has written.

    Of its headers only those are read that the configuration maps fields to. Null counts as absent.

    Raises:
        WrongArguments: no arguments make it: it goes elsewhere, or has what the tool's configuration does not name.
    """
    own = read_target(tool.api.base_url)
    try:
        target = _parse_url(own, written.url)
    except OutboundRefused as error:
        raise WrongArguments([f"url cannot be used: {error}"]) from None
    in_path = _placeholder_values(own.path.removesuffix("/") + tool.api.path, _comparable_path(target))
    if in_path is None:
        raise WrongArguments([f"url must be {tool.api.base_url}{tool.api.path} with values for the placeholders"])
    # References lead to the definitions of the whole.
    shared = {key: tool.input_schema[key] for key in _DEFINITION_KEYS if key in tool.input_schema}
    schema, steps = Schema(shared | {"properties": tool.input_fields}, well_formed=True), [MAX_CHECK_STEPS]
    found = {
        name: _first_valid_reading(schema, steps, name, value)
        for name, value in _written_values(tool, written, target, in_path)
        if value is not None
    }
    if problems := differences(build_request(tool, found), written):
        raise WrongArguments(problems)
    return found


def _written_values(
    tool: ToolConfig, written: HTTPRequestSpec, target: OutboundTarget, in_path: dict[str, str]
) -> Iterator[tuple[str, Any]]:
    query = _query_texts(written, target)
    headers = {name.lower(): text for name, text in written.headers.items()}
    body = _parse_json(written.body) if isinstance(written.body, str) else written.body
    for name, place in tool.places.items():
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
    """Give what a path has in the place of a template's placeholders; None when it has another form."""
    parts = PLACEHOLDER.split(template.removesuffix("/"))
    names, literals = parts[1::2], [re.escape(_normalize_path(literal)) for literal in parts[::2]]
    # Each value is as short as it can be and is read once: many placeholders in one segment do not make it slow.
    inner = [f"(?>([^/]+?){literal})" for literal in literals[1:-1]]
    last = [f"([^/]+){literals[-1]}"] if names else []
    found = re.fullmatch("".join([literals[0], *inner, *last]), path)
    return dict(zip(names, map(unquote, found.groups()), strict=True)) if found else None


def _value_at(body: Any, steps: Steps) -> Any:
    """Give what steps lead to in a body; None where they lead nowhere."""
    try:
        for step in steps:
            body = body[step]
    except (KeyError, IndexError, TypeError):
        return None
    return body


def _first_valid_reading(schema: Schema, steps: list[int], name: str, written: Any) -> Any:
    """Return the first reading of a written value that the field's schema takes; as written when it takes none.

    A text is taken as it is where the schema has texts, else as the JSON in it: 5 of "5", true of "true".
    """
    items = written if isinstance(written, list) else [written]
    for read in (lambda item: item, lambda item: _parse_json(item) if isinstance(item, str) else item, value_text):
        many = [read(item) for item in items]
        for reading in [many] if items is written else [many[0], many]:
            if not schema.problems({name: reading}, steps):
                return reading
    return written
