"""Compare the request a model has written with the one its arguments make, in words that help it to repair them (W-05).

Only what the arguments make is ever sent, so a text may stand for a number here, and headers are not looked at.
Where a model writes a request only, the arguments that make it are read from it.
"""

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from itertools import islice, pairwise
from json import loads
from typing import Any
from urllib.parse import unquote

from toolweave.errors import OutboundRefused
from toolweave.nodes.http_tools.requests import (
    HTTPRequestSpec,
    WrongArguments,
    build_request,
    query_value,
    read_query,
    text_of,
    told_name,
)
from toolweave.outbound_policy import OutboundTarget, read_target
from toolweave.schema import Schema, shown
from toolweave.tool_config import PLACEHOLDER, Steps, ToolConfig

_DEFINITIONS = ("$schema", "$defs", "definitions")
_LONGEST_JSON = 100_000
MOST_STEPS = 20_000


class Readings:
    """The readings of what a model has written that a tool's input_schema takes.

    A text is taken as it is where the schema has texts, else as the JSON in it: 5 of "5", true of "true". All fields
    share one number of steps; when it is used up, what is left is taken as it is written.
    """

    def __init__(self, tool: ToolConfig) -> None:
        # References lead to the definitions of the whole.
        shared = {key: tool.input_schema[key] for key in _DEFINITIONS if key in tool.input_schema}
        self._schema = Schema(shared | {"properties": tool.input_fields}, well_formed=True)
        self._steps = [MOST_STEPS]

    def fitting(self, name: str, written: Any) -> Any:
        """Return the first reading that the field's schema takes; as written when it takes none."""
        tried: list[Any] = []
        for reading in _readings(written):
            if any(same is reading for same in tried):
                continue
            tried.append(reading)
            if not self._schema.problems({name: reading}, self._steps):
                return reading
        return written


def inside(body: Any, steps: Steps) -> Any:
    """Give what steps lead to in a body; None where they lead nowhere."""
    for step in steps:
        if isinstance(step, int):
            body = body[step] if isinstance(body, list) and step < len(body) else None
        else:
            body = body.get(step) if isinstance(body, dict) else None
    return body


def read_json(text: str) -> Any:
    """Read JSON; raises ValueError, also for what is too long, nested too deeply or no number."""
    if len(text) > _LONGEST_JSON:
        raise ValueError("too long")
    try:
        return loads(text, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _readings(written: Any) -> Iterator[Any]:
    yield written
    if isinstance(written, list):
        yield [_as_json(item) for item in written]
        yield [_as_text(item) for item in written]
        return
    yield _as_json(written)
    yield _as_text(written)
    for reading in (written, _as_json(written), _as_text(written)):
        yield [reading]


def _as_json(written: Any) -> Any:
    try:
        return read_json(written) if isinstance(written, str) else written
    except ValueError:
        return written


def _as_text(written: Any) -> Any:
    return text_of(written) if isinstance(written, bool | int | float) else written


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_LONGEST_NUMBER = 400


def same_value(one: Any, other: Any) -> bool:
    """Compare scalars: 5 is "5" and 5.0, true is "true", null is null; two texts are compared as they are.

    A text with JSON in it is the same as another one when the JSON is.
    """
    if isinstance(one, str) and isinstance(other, str):
        return one == other or (one[:1] in ("{", "[") and one[:1] == other[:1] and _same_json(one, other))
    if one is None or other is None:
        return one is other
    if isinstance(one, bool) or isinstance(other, bool):
        return bool(_text(one) == _text(other))
    number, another = _number(one), _number(other)
    return number == another if number is not None and another is not None else one == other


def _text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _number(value: Any) -> Decimal | None:
    if isinstance(value, int):
        return Decimal(value)
    if isinstance(value, float):
        number = Decimal(repr(value))
    elif isinstance(value, str) and len(value) <= _LONGEST_NUMBER:
        try:
            number = Decimal(value)
        except InvalidOperation:
            return None
    else:
        return None
    return number if number.is_finite() else None


def _same_json(one: str, other: str) -> bool:
    try:
        return bool(read_json(one) == read_json(other))
    except (ValueError, RecursionError):
        return False


_PATH_ONLY = re.compile(r"/(?!/)")


def origin(target: OutboundTarget) -> str:
    """Give the part of a URL before its path."""
    return f"{target.scheme}://{target.authority}"


def written_target(own: OutboundTarget, url: str) -> OutboundTarget:
    """Read a URL, which may begin with its path; raises OutboundRefused."""
    return read_target(origin(own) + url if _PATH_ONLY.match(url) else url)


def written_query(request: HTTPRequestSpec, url: str) -> dict[str, list[Any]]:
    """Give the values of a request's query by name, those within its URL and the others; null is no value."""
    found: dict[str, list[Any]] = {name: list(texts) for name, texts in read_query(url.partition("?")[2]).items()}
    for name, value in request.query.items():
        plain = query_value(value)
        values = plain if isinstance(plain, list) else [] if plain is None else [plain]
        # The same parameter in both places is still one.
        if [text_of(known) for known in found.get(name, [])] != [text_of(given) for given in values]:
            found[name] = [*found.get(name, []), *values]
    return {name: values for name, values in found.items() if values}


def segments(path: str) -> list[str]:
    """Take a path apart and decode each part.

    Whether there is a slash at its end makes no difference: the configuration says it when the request is sent.
    """
    return [unquote(segment) for segment in path.partition("?")[0].removesuffix("/").split("/")]


def placeholder_values(template: str, path: str) -> dict[str, str] | None:
    """Give what a path has in the place of a template's placeholders; None when it has another form."""
    forms, texts = template.removesuffix("/").split("/"), segments(path)
    if len(forms) != len(texts):
        return None
    found: dict[str, str] = {}
    for form, text in zip(forms, texts, strict=True):
        values = _within_segment(form, text)
        if values is None:
            return None
        found |= values
    return found


def _within_segment(form: str, text: str) -> dict[str, str] | None:
    literals, names = [unquote(part) for part in PLACEHOLDER.split(form)[::2]], PLACEHOLDER.findall(form)
    if not names:
        return {} if text == literals[0] else None
    end = len(text) - len(literals[-1])
    if not text.startswith(literals[0]) or not text.endswith(literals[-1]):
        return None
    # No expression: many placeholders in one segment would make it slow. Each value is as short as it can be.
    ends = [len(literals[0])]
    for literal in literals[1:-1]:
        start = text.find(literal, ends[-1] + 1, end) if literal else -1
        if start < 0:
            return None
        ends += [start, start + len(literal)]
    ends.append(end)
    values = [text[start:stop] for start, stop in list(pairwise(ends))[::2]]
    return dict(zip(names, values, strict=True)) if all(values) else None


MOST_DIFFERENCES = 8
_LONGEST = 200
_REPAIR = "leave it out or give it as an argument"


def differences(built: HTTPRequestSpec, written: HTTPRequestSpec) -> list[str]:
    """Name in what `written` is another request than `built`: method, host, path, query and body; [] if it is the same.

    A query within the URL counts as query, and a URL may begin with its path. Null counts as absent; "5" equals 5.
    At most `MOST_DIFFERENCES` are named.
    """
    return list(islice(_differences(built, written), MOST_DIFFERENCES))


def arguments_of(tool: ToolConfig, written: HTTPRequestSpec) -> dict[str, Any]:
    """Return the arguments that make the request a model has written.

    Of its headers only those are read that the configuration maps fields to. Null counts as absent.

    Raises:
        WrongArguments: no arguments make it: it goes elsewhere, or has what the tool's configuration does not name.
    """
    own = read_target(tool.api.base_url)
    if written.method != tool.api.method:
        raise WrongArguments([f"method must be {tool.api.method}, not {written.method}"])
    try:
        target = written_target(own, written.url)
    except OutboundRefused as error:
        raise WrongArguments([f"url cannot be used: {error}"]) from None
    in_path = placeholder_values(own.path.removesuffix("/") + tool.api.path, target.path)
    if in_path is None or target.origin != own.origin:
        raise WrongArguments([f"url must be {tool.api.base_url}{tool.api.path} with values for the placeholders"])
    readings = Readings(tool)
    found = {
        name: readings.fitting(name, value)
        for name, value in _written_values(tool, written, target, in_path)
        if value is not None
    }
    if problems := differences(build_request(tool, found), written):
        raise WrongArguments(problems)
    return found


def _written_values(
    tool: ToolConfig, written: HTTPRequestSpec, target: OutboundTarget, in_path: dict[str, str]
) -> Iterator[tuple[str, Any]]:
    query = written_query(written, target.path)
    headers = {name.lower(): text for name, text in written.headers.items()}
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
                yield name, inside(_body({}, written.body), place.steps)


def _differences(built: HTTPRequestSpec, written: HTTPRequestSpec) -> Iterator[str]:
    if built.method != written.method:
        yield f"method must be {built.method}, not {written.method}"
    own = read_target(built.url)
    try:
        target = written_target(own, written.url)
    except OutboundRefused as error:
        yield f"url cannot be used: {error}"
        return
    if target.origin != own.origin:
        yield f"url must begin with {origin(own)}, not {origin(target)}"
    elif segments(own.path) != segments(target.path):
        yield f"the path of url must be {_path(own)}, not {_path(target)}"
    yield from _in_query(written_query(built, own.path), written_query(written, target.path))
    yield from _in_body("body", built.body, written.body)


def _path(target: OutboundTarget) -> str:
    return target.path.partition("?")[0][:_LONGEST]


def _in_query(built: dict[str, list[Any]], written: dict[str, list[Any]]) -> Iterator[str]:
    for name, values in built.items():
        if name not in written:
            yield f"query has no {name}, the arguments make it {_shown(values)}"
        elif not _same_values(values, written[name]):
            yield f"query parameter {name} must be {_shown(values)}, not {_shown(written[name])}"
    for name in written:
        if name not in built:
            yield f"query has {told_name(name)}, which the arguments do not make; {_REPAIR}"


def _same_values(built: list[Any], written: list[Any]) -> bool:
    if len(written) == 1 and len(built) > 1:
        written = written[0].split(",") if isinstance(written[0], str) else written
    return len(built) == len(written) and all(map(same_value, built, written))


def _shown(values: list[Any]) -> str:
    return ", ".join(map(shown, values[:5])) if len(values) <= 5 else f"{len(values)} values"


def _body(built: Any, written: Any) -> Any:
    """Read what is written as JSON within a text, where no text is made."""
    if not isinstance(written, str) or not isinstance(built, dict | list | None):
        return written
    try:
        return read_json(written) if written.strip() else None
    except ValueError:
        return written


def _in_body(place: str, built: Any, written: Any) -> Iterator[str]:
    written = _body(built, written)
    if isinstance(built, dict) and isinstance(written, dict | None):
        yield from _in_object(place, built, written or {})
    elif isinstance(built, list) and isinstance(written, list) and len(built) == len(written):
        for index, (ours, theirs) in enumerate(zip(built, written, strict=True)):
            yield from _in_body(f"{place}[{index}]", ours, theirs)
    elif built in (None, []) and written in (None, [], {}):
        return
    elif isinstance(built, dict | list) or isinstance(written, dict | list) or not same_value(built, written):
        yield f"{place} must be {_told(built)}, not {_told(written)}"


def _in_object(place: str, built: dict[str, Any], written: dict[str, Any]) -> Iterator[str]:
    for name, value in built.items():
        if name in written or value is not None:
            yield from _in_body(f"{place}.{name}"[:_LONGEST], value, written.get(name))
    for name, value in written.items():
        if name not in built and value is not None:
            yield f"{place}.{told_name(name)} is not what the arguments make; {_REPAIR}"


def _told(value: Any) -> str:
    return "absent" if value is None else shown(value)
