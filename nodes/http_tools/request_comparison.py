"""Compare the request a model has written with the one its arguments make, in words that help it to repair them (W-05).

Only what the arguments make is ever sent, so a text may stand for a number here, and headers are not looked at.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from toolweave.errors import OutboundRefused
from toolweave.nodes.http_tools.argument_reading import Readings, inside, read_json
from toolweave.nodes.http_tools.arguments import WrongArguments, told_name
from toolweave.nodes.http_tools.loose_equality import same_value
from toolweave.nodes.http_tools.request_building import build_request
from toolweave.nodes.http_tools.specs import HTTPRequestSpec
from toolweave.nodes.http_tools.written_requests import (
    origin,
    placeholder_values,
    segments,
    written_query,
    written_target,
)
from toolweave.outbound_urls import OutboundTarget, read_target
from toolweave.schema import shown
from toolweave.tool_config import ToolConfig

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
