"""Make the request of a tool's operation from arguments: what is sent is always what this says (W-05).

Credentials are added where it is sent, so the secret headers of a configuration are not in it.
"""

from collections.abc import Mapping
from typing import Any

from toolweave.errors import OutboundRefused
from toolweave.field_mappings import Place, Steps
from toolweave.nodes.http_tools.api_requests import with_query
from toolweave.nodes.http_tools.arguments import WrongArguments, checked_arguments
from toolweave.nodes.http_tools.parameters import query_value, text_of
from toolweave.nodes.http_tools.path_filling import filled_path
from toolweave.nodes.http_tools.specs import HTTPRequestSpec
from toolweave.outbound_urls import MOST_CHARACTERS, read_target
from toolweave.tool_config import WITHOUT_BODY, ToolConfig

__all__ = ["WrongArguments", "build_request"]

LONGEST_HEADER = 4_000


def build_request(tool: ToolConfig, arguments: Mapping[str, Any]) -> HTTPRequestSpec:
    """Return the request that the tool's configuration makes of arguments.

    Path and header values are scalars. In the query lists repeat their name, objects are written as JSON, null is left
    out. A body is JSON; tools whose fields go to one always have one, an empty object at least. A field mapped to
    `body.$` is the whole body.

    Raises:
        WrongArguments: the arguments do not fit the input_schema, or a value cannot stand where it goes.
    """
    given = checked_arguments(tool, arguments)
    places = tool.places
    path, problems = _path(tool, {name: given[name] for name in given if places[name].part == "path"})
    secret = tool.secret_headers
    headers = {name: text for name, text in tool.api.headers.items() if name not in secret}
    query: dict[str, Any] = {}
    for name, place in places.items():
        value = given.get(name)
        if value is None:
            continue
        if place.part == "query" and value != []:
            query[place.name] = query_value(value)
        elif place.part == "header":
            headers[place.name] = text_of(value)
            problems += [f"{name} {wrong}" for wrong in _no_header(value)]
    if problems:
        raise WrongArguments(problems)
    return _request(tool, path, headers, query, _body(tool, places, given))


def _path(tool: ToolConfig, given: Mapping[str, Any]) -> tuple[str, list[str]]:
    fields = {place.name: name for name, place in tool.places.items() if place.part == "path"}
    if composed := [name for name, value in given.items() if isinstance(value, dict | list | tuple | None)]:
        return "", [f"{name} must be one text, number or boolean: it is a part of the path" for name in composed]
    texts = {placeholder: text_of(given[name]) for placeholder, name in fields.items() if name in given}
    path, problems = filled_path(tool.api.path, texts)
    return path, [f"{fields[placeholder]} {problem}" for placeholder, problem in problems]


def _request(tool: ToolConfig, path: str, headers: dict[str, str], query: dict[str, Any], body: Any) -> HTTPRequestSpec:
    try:
        url = read_target(tool.api.base_url + path).url
        request = HTTPRequestSpec(method=tool.api.method, url=url, headers=headers, query=query, body=body)
        read_target(with_query(request.url, request.query))
    except OutboundRefused:
        raise WrongArguments([f"the arguments make a URL of more than {MOST_CHARACTERS} characters"]) from None
    return request


def _no_header(value: Any) -> list[str]:
    if isinstance(value, dict | list | tuple):
        return ["must be one text, number or boolean: it goes to a header"]
    text = text_of(value)
    if len(text) > LONGEST_HEADER:
        return [f"may have {LONGEST_HEADER} characters at most: it goes to a header"]
    if not (text.isascii() and text.isprintable()) or text != text.strip():
        return ["may hold printable ASCII only, no line breaks and no blanks around it: it goes to a header"]
    return []


def _body(tool: ToolConfig, places: Mapping[str, Place], given: Mapping[str, Any]) -> Any:
    steps = {name: place.steps for name, place in places.items() if place.part == "body"}
    if tool.api.method in WITHOUT_BODY or not steps:
        return None
    whole = next((name for name, inner in steps.items() if not inner), None)
    if whole is not None:
        return given.get(whole)
    body: Any = [] if any(isinstance(inner[0], int) for inner in steps.values()) else {}
    for name, value in given.items():
        if name in steps:
            _put(body, steps[name], value)
    return body


def _put(body: Any, steps: Steps, value: Any) -> None:
    """Put a value where steps lead to; what lies between is made, and list items before it are null."""
    for step, following in zip(steps, (*steps[1:], None), strict=True):
        if isinstance(step, int):
            body.extend([None] * (step + 1 - len(body)))
        there = body[step] if isinstance(step, int) else body.get(step)
        if following is None:
            body[step] = value
        elif there is None:
            body[step] = [] if isinstance(following, int) else {}
        body = body[step]
