"""Turn the texts of a written request back into values that a tool's input_schema takes (W-05)."""

from collections.abc import Iterator
from json import loads
from typing import Any

from toolweave.field_mappings import Steps
from toolweave.nodes.http_tools.parameters import text_of
from toolweave.schema import Schema
from toolweave.tool_config import ToolConfig

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
