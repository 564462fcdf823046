"""Make up the least value that a schema allows, for a call that has to be made."""

import math
from collections.abc import Mapping
from datetime import date
from typing import Any

from toolweave.nodes.offline_model.tools.parameters import Parameter

_LONGEST_TITLE = 80
_FORMATS = {
    "time": "00:00:00Z",
    "uri": "https://example.invalid/",
    "url": "https://example.invalid/",
    "email": "nobody@example.invalid",
    "uuid": "00000000-0000-0000-0000-000000000000",
}


def made_up_value(parameter: Parameter, text: str, today: date) -> Any:
    """Give a default, a first choice, zero, no, nothing, or the text itself, as the parameter's kind asks."""
    if "default" in parameter.schema:
        return parameter.schema["default"]
    if parameter.choices:
        return parameter.choices[0]
    if parameter.kind in ("integer", "number"):
        return _least_number(parameter.schema, whole=parameter.kind == "integer")
    if parameter.kind == "boolean":
        return False
    if parameter.kind == "null":
        return None
    if parameter.kind in ("array", "object"):
        return [] if parameter.kind == "array" else {}
    return _least_text(parameter, text, today)


def _number(schema: Mapping[str, Any], keyword: str) -> float | None:
    value = schema.get(keyword)
    return value if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else None


def _least_number(schema: Mapping[str, Any], *, whole: bool) -> int | float:
    least, above, most = (_number(schema, keyword) for keyword in ("minimum", "exclusiveMinimum", "maximum"))
    value: float = least if least is not None else above + 1 if above is not None else min(0, most or 0)
    step = _number(schema, "multipleOf") or (1 if whole else 0)
    if step > 0:
        value = math.ceil(value / step) * step
    return int(value) if whole or value == int(value) else value


def _least_text(parameter: Parameter, text: str, today: date) -> str:
    stated = parameter.schema.get("format")
    if parameter.role == "date":
        return f"{today.isoformat()}T00:00:00Z" if stated == "date-time" else today.isoformat()
    if isinstance(stated, str) and stated in _FORMATS:
        return _FORMATS[stated]
    said = " ".join(text.split()) or parameter.name
    if parameter.role == "title":
        said = _as_title(text) or said[:_LONGEST_TITLE]
    most, least = _number(parameter.schema, "maxLength"), _number(parameter.schema, "minLength")
    said = said if most is None else said[: int(most)]
    return said if least is None else said.ljust(min(int(least), 10_000), ".")


def _as_title(text: str) -> str:
    """Give the first line or sentence of a text, cut at a word."""
    first = text.strip().split("\n", 1)[0].split(". ", 1)[0].strip()
    return first if len(first) <= _LONGEST_TITLE else first[:_LONGEST_TITLE].rsplit(" ", 1)[0]
