"""Build the request of a tool's operation from checked arguments, and compare a request that a model wrote (W-05).

Nothing else than the built request is ever sent, so a text may replace a number in a written one, and its headers are
ignored. If a model wrote only a request, its arguments are inferred from it. A request has no credentials and no secret
headers: these are added when it is sent. Query and body are encoded here, too. No value can leave its segment of the
path (W-09).
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

import orjson
from pydantic import BaseModel, ConfigDict, Field, field_validator

from toolweave.errors import OutboundRefused
from toolweave.outbound_policy import MAX_URL_CHARS, OutboundTarget, parse_target
from toolweave.schema import Schema
from toolweave.tool_config import BODYLESS, PLACEHOLDER, MethodField, PathSteps, RequestLocation, ToolConfig


class HTTPRequestSpec(BaseModel):
    """A request without its credentials; values of `query` are scalars, or lists for repeated names."""

    model_config = ConfigDict(extra="ignore")

    method: MethodField
    url: str = Field(min_length=1, max_length=8_192)
    headers: dict[str, str] = Field(default_factory=dict)
    query: dict[str, Any] = Field(default_factory=dict)
    body: Any = None

    @field_validator("headers", "query", mode="before")
    @classmethod
    def _none_is_empty(cls, value: Any) -> Any:
        return {} if value is None else value


class HTTPResponseSpec(BaseModel):
    """A response: header names in lower case; `body` is parsed JSON, text, or base64 if `body_encoding` is "base64"."""

    status_code: int
    headers: dict[str, str] = Field(default_factory=dict)
    body: Any = None
    execution_time_ms: float
    body_encoding: str | None = None


MAX_ARGUMENTS_CHARS = 1_000_000
MAX_NAME_CHARS = 60


class WrongArguments(ValueError):
    """Arguments that make no valid request of the tool; `problems` describes for the model what to correct."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


def display_name(name: Any) -> str:
    """Return a name that a model wrote for use in messages: cut, and without lone surrogates."""
    return str(name)[:MAX_NAME_CHARS].encode(errors="replace").decode()


def check_arguments(tool: ToolConfig, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that the tool's input_schema allows.

    A missing placeholder takes its schema's default. Null for an optional field that cannot be null counts as missing;
    nothing else is changed or added. Fields that input_schema does not name are refused, whatever its
    additionalProperties allow, because the configuration has no place for them.

    Raises:
        WrongArguments: they do not match, or have a value that cannot be sent.
    """
    if not isinstance(arguments, Mapping):
        raise WrongArguments(["the arguments must be an object"])
    if problems := _unsendable_arguments(arguments) or _unknown_fields(tool, arguments):
        raise WrongArguments(problems)
    checked = _path_defaults(tool) | dict(arguments)
    if problems := tool.input_validator.problems(checked):
        non_null = {name: value for name, value in checked.items() if value is not None or name in tool.required_fields}
        if len(non_null) < len(checked):
            checked, problems = non_null, tool.input_validator.problems(non_null)
    if problems:
        raise WrongArguments(problems)
    return checked


def _path_defaults(tool: ToolConfig) -> dict[str, Any]:
    found = {}
    for name, place in tool.request_locations.items():
        form = tool.input_fields[name]
        if place.part == "path" and isinstance(form, dict) and "default" in form:
            found[name] = form["default"]
    return found


def _unknown_fields(tool: ToolConfig, arguments: Mapping[str, Any]) -> list[str]:
    known = ", ".join(tool.input_fields) or "none"
    names = [display_name(name) for name in arguments if name not in tool.input_fields]
    return [f"{', '.join(names[:3])} is not a known field; known: {known[:300]}"] if names else []


def _unsendable_arguments(arguments: Mapping[str, Any]) -> list[str]:
    """Return a problem for the first argument that is too large or not JSON."""
    remaining = MAX_ARGUMENTS_CHARS
    for name, value in arguments.items():
        try:
            orjson.dumps(value)  # refuses integers of more than 64 bits, half characters and very deep nesting
            remaining -= len(json.dumps(value, allow_nan=False, ensure_ascii=False))
        except (TypeError, ValueError, RecursionError):
            rules = "finite numbers, integers of 64 bits and whole characters, nested less than 255 levels deep"
            return [f"{display_name(name)} must be JSON with {rules}"]
        if remaining < 0:
            return [f"{display_name(name)} is too large: a request has {MAX_ARGUMENTS_CHARS} characters at most"]
    return []


_MAX_EXACT_INTEGER = 1 << 53


def query_value(value: Any) -> Any:
    """Return a value as the query has it: scalars or a list of them; objects, and lists in a list, become JSON."""
    if isinstance(value, list | tuple):
        return [_to_scalar(item) for item in value if item is not None]
    return _to_scalar(value)


def value_text(value: Any) -> str:
    """Return a value as text: true, 5 (also for 5.0), a text unchanged, JSON for objects and lists."""
    scalar = _to_scalar(value)
    return scalar if isinstance(scalar, str) else _json_text(scalar)


def _to_scalar(value: Any) -> Any:
    if isinstance(value, dict | list | tuple):
        return _json_text(value)
    # Schemas accept 5.0 as an integer, many APIs do not.
    whole = isinstance(value, float) and value.is_integer() and abs(value) < _MAX_EXACT_INTEGER
    return int(value) if whole else value


def _json_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return f"<{type(value).__name__}>"


MAX_PATH_VALUE_CHARS = 2_000
_MAX_DECODINGS = 4
_UNQUOTED = "/%:@!$&'()*+,;=~"
_PATH_FORBIDDEN = re.compile(r"[/\\\x00-\x1f\x7f-\x9f]")


def fill_path(template: str, values: Mapping[str, str]) -> tuple[str, list[tuple[str, str]]]:
    """Return the path with its values percent-encoded, and the problems of values, each with its placeholder.

    No value can change which operation is called. Servers and proxies decode paths before they route, so a value is
    refused when it is empty or has a slash, a backslash or a control character, plain or encoded once or more, or when
    it makes a segment `.` or `..`.
    """
    names = PLACEHOLDER.findall(template)
    problems = [(name, problem) for name in names if (problem := _segment_problem(values.get(name, "")))]
    for segment in template.split("/"):
        # The server sees literal text and values as one segment.
        filled = PLACEHOLDER.sub(lambda found: values.get(found[1], ""), segment)
        if filled != segment and _is_dot_segment(filled):
            problems.append((PLACEHOLDER.findall(segment)[0], f"would make {filled!r} of a part of the path"))
    return "/".join(_encode_segment(segment, values) for segment in template.split("/")), problems


def _segment_problem(value: str) -> str | None:
    if not value:
        return "is required and may not be empty: it is a part of the path"
    if len(value) > MAX_PATH_VALUE_CHARS:
        return f"may have {MAX_PATH_VALUE_CHARS} characters at most: it is a part of the path"
    if any(_PATH_FORBIDDEN.search(form) for form in _decodings(value)):
        return "may hold no slash, backslash or control character: it is one part of the path"
    return None


def _is_dot_segment(segment: str) -> bool:
    return any(form.partition(";")[0].strip() in (".", "..") for form in _decodings(segment))


def _decodings(text: str) -> list[str]:
    """Return a text, and its form after each decoding that changes it."""
    forms = [text]
    while len(forms) <= _MAX_DECODINGS and (decoded := unquote(forms[-1])) != forms[-1]:
        forms.append(decoded)
    return forms


def _encode_segment(segment: str, values: Mapping[str, str]) -> str:
    parts = PLACEHOLDER.split(segment)
    return "".join(
        quote(values.get(part, ""), safe="") if index % 2 else quote(part, safe=_UNQUOTED)
        for index, part in enumerate(parts)
    )


MAX_HEADER_CHARS = 4_000


def build_request(tool: ToolConfig, arguments: Mapping[str, Any]) -> HTTPRequestSpec:
    """Return the request that the tool's configuration makes of arguments.

    Path and header values are scalars. In the query, lists repeat their name, objects become JSON, and null is left
    out. A body is JSON; tools with body fields always send one, at least an empty object. A field mapped to `body.$` is
    the whole body.

    Raises:
        WrongArguments: the arguments do not match the input_schema, or a value is invalid at its place.
    """
    checked = check_arguments(tool, arguments)
    places = tool.request_locations
    path, problems = _build_path(tool, checked)
    secret = tool.secret_headers
    headers = {name: text for name, text in tool.api.headers.items() if name not in secret}
    query: dict[str, Any] = {}
    for name, place in places.items():
        value = checked.get(name)
        if value is None:
            continue
        if place.part == "query" and value != []:
            query[place.name] = query_value(value)
        elif place.part == "header":
            headers[place.name] = value_text(value)
            problems += [f"{name} {wrong}" for wrong in _header_problems(value)]
    if problems:
        raise WrongArguments(problems)
    return _spec(tool, path, headers, query, _build_body(tool, places, checked))


def _build_path(tool: ToolConfig, checked: Mapping[str, Any]) -> tuple[str, list[str]]:
    fields = {place.name: name for name, place in tool.request_locations.items() if place.part == "path"}
    if composed := [name for name in fields.values() if isinstance(checked.get(name, ""), dict | list | tuple | None)]:
        return "", [f"{name} must be one text, number or boolean: it is a part of the path" for name in composed]
    texts = {placeholder: value_text(checked[name]) for placeholder, name in fields.items() if name in checked}
    path, problems = fill_path(tool.api.path, texts)
    return path, [f"{fields[placeholder]} {problem}" for placeholder, problem in problems]


def _spec(tool: ToolConfig, path: str, headers: dict[str, str], query: dict[str, Any], body: Any) -> HTTPRequestSpec:
    try:
        url = parse_target(tool.api.base_url + path).url
        request = HTTPRequestSpec(method=tool.api.method, url=url, headers=headers, query=query, body=body)
        parse_target(add_query(request.url, request.query))
    except OutboundRefused:
        raise WrongArguments([f"the arguments make a URL of more than {MAX_URL_CHARS} characters"]) from None
    return request


def _header_problems(value: Any) -> list[str]:
    if isinstance(value, dict | list | tuple):
        return ["must be one text, number or boolean: it goes to a header"]
    text = value_text(value)
    if len(text) > MAX_HEADER_CHARS:
        return [f"may have {MAX_HEADER_CHARS} characters at most: it goes to a header"]
    if not (text.isascii() and text.isprintable()) or text != text.strip():
        return ["may hold printable ASCII only, no line breaks and no blanks around it: it goes to a header"]
    return []


def _build_body(tool: ToolConfig, places: Mapping[str, RequestLocation], checked: Mapping[str, Any]) -> Any:
    steps = {name: place.steps for name, place in places.items() if place.part == "body"}
    if tool.api.method in BODYLESS or not steps:
        return None
    whole = next((name for name, inner in steps.items() if not inner), None)
    if whole is not None:
        return checked.get(whole)
    body: Any = [] if any(isinstance(inner[0], int) for inner in steps.values()) else {}
    for name, value in checked.items():
        if name in steps:
            _set_at(body, steps[name], value)
    return body


def _set_at(body: Any, steps: PathSteps, value: Any) -> None:
    """Set a value at the end of `steps`; create missing containers, and fill lists up with null."""
    for step, following in zip(steps, (*steps[1:], None), strict=True):
        if isinstance(step, int):
            body.extend([None] * (step + 1 - len(body)))
        existing = body[step] if isinstance(step, int) else body.get(step)
        if following is None:
            body[step] = value
        elif existing is None:
            body[step] = [] if isinstance(following, int) else {}
        body = body[step]


def json_bytes(value: Any) -> bytes:
    """Return compact JSON; raise ValueError for NaN, infinities and lone surrogates."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def add_query(url: str, query: Mapping[str, Any]) -> str:
    """Append a query to a URL; lists repeat their name, None is left out."""
    pairs = [(name, text) for name, value in query.items() for text in _query_texts(value)]
    if not pairs:
        return url
    encoded = urlencode(pairs, quote_via=quote, safe="*", errors="replace")
    return f"{url}{'&' if '?' in url else '?'}{encoded}"


def _query_texts(value: Any) -> Iterator[str]:
    for part in value if isinstance(value, list | tuple) else [value]:
        if part is not None:
            yield part if isinstance(part, str) else json_bytes(part).decode()


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
    query = {name: ",".join(texts) for name, texts in _written_query(request, target).items()}
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


def _written_query(request: HTTPRequestSpec, target: OutboundTarget) -> dict[str, list[str]]:
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
    query = _written_query(written, target)
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
