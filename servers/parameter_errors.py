"""Say which parameter of a tool call is wrong, such as `filters[0].op`, and what it must be, never its value (C-07)."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails, to_json

from toolweave.servers.error_codes import INVALID_PARAMETER, MISSING_PARAMETER, UNKNOWN_PARAMETER, ErrorCode

Schema = Mapping[str, Any]
_REFERENCE = "#/$defs/"


@dataclass(frozen=True, slots=True)
class ParameterPlace:
    """A place in a tool's input; `forms` are the forms of a union that pydantic tried on the way to it."""

    name: str
    schema: Schema
    forms: tuple[str, ...]


def place_of(location: tuple[int | str, ...], schema: Schema, *, is_unknown: bool = False) -> ParameterPlace:
    """Follow a location of pydantic through the tool's input schema; `is_unknown`: its last part is no parameter."""
    name = ""
    forms: tuple[str, ...] = ()
    known = location[:-1] if is_unknown else location
    here: Schema = schema
    for part in known:
        below = _below(part, here, schema)
        if below is None:
            # What is no part of the input names the form of a union that was tried.
            forms += (str(part),)
            here = _form_called(str(part), here, schema)
        else:
            name, here = _joined(name, part), below
    return ParameterPlace(_joined(name, location[-1]) if is_unknown else name, here, forms)


def forms_of(schema: Schema, root: Schema) -> Iterator[Schema]:
    """Give the forms that a value may have, references resolved: one, or those of a union without null."""
    target = _resolved(schema, root)
    alternatives = target.get("anyOf") or target.get("oneOf")
    if alternatives is None:
        yield target
        return
    for form in alternatives:
        if form.get("type") != "null":
            yield from forms_of(form, root)


def shown(text: str) -> str:
    """Cut a name that came from outside to what an answer may repeat."""
    return "".join(character if character.isprintable() else "?" for character in text[:64])


def _below(part: int | str, schema: Schema, root: Schema) -> Schema | None:
    for form in forms_of(schema, root):
        if isinstance(part, int) and form.get("type") == "array":
            items: Schema = form.get("items", {})
            return items
        if part in form.get("properties", {}):
            found: Schema = form["properties"][part]
            return found
        values = form.get("additionalProperties")
        if isinstance(part, str) and form.get("type") == "object" and isinstance(values, Mapping):
            return values
    return None


def _form_called(name: str, schema: Schema, root: Schema) -> Schema:
    target = _resolved(schema, root)
    for form in target.get("anyOf") or target.get("oneOf") or ():
        if form.get("$ref") == _REFERENCE + name:
            return _resolved(form, root)
    return schema


def _resolved(schema: Schema, root: Schema) -> Schema:
    while "$ref" in schema:
        schema = root.get("$defs", {}).get(schema["$ref"].removeprefix(_REFERENCE), {})
    return schema


def _joined(name: str, part: int | str) -> str:
    if isinstance(part, int):
        return f"{name}[{part}]"
    return f"{name}.{shown(part)}" if name else shown(part)


_MOST_NAMED = 5
_CODES = {
    "missing_argument": MISSING_PARAMETER,
    "missing": MISSING_PARAMETER,
    "unexpected_keyword_argument": UNKNOWN_PARAMETER,
    "extra_forbidden": UNKNOWN_PARAMETER,
}
Finding = tuple[ParameterPlace, ErrorDetails]


def explain(error: ValidationError, schema: Schema) -> tuple[ErrorCode, str]:
    """Turn pydantic's findings into a code and one sentence per wrong parameter, such as `tags` or `filters[0].op`.

    `schema` is the tool's input schema: what a parameter must be is read from it.
    """
    of_parameters: dict[str, list[Finding]] = defaultdict(list)
    for detail in error.errors(include_url=False, include_input=False):
        is_unknown = _CODES.get(detail["type"]) is UNKNOWN_PARAMETER
        place = place_of(detail["loc"], schema, is_unknown=is_unknown)
        of_parameters[str(detail["loc"][0]) if detail["loc"] else ""].append((place, detail))
    # What is wrong about each comes before what else is wrong about one.
    found = [_of_likeliest_form(findings) for findings in of_parameters.values()]
    told = [findings[0] for findings in found] + [finding for findings in found for finding in findings[1:]]
    code = _CODES.get(told[0][1]["type"], INVALID_PARAMETER)
    return code, " ".join(_sentence(place, detail, schema) for place, detail in told[:_MOST_NAMED])


def unwritable(arguments: Mapping[str, Any]) -> str | None:
    """Name the parameter that cannot be written as JSON: from another process none comes, in this one it may."""
    for name, value in arguments.items():
        try:
            to_json({name: value})
        except ValueError:
            return name
    return None


def expectation(schema: Schema, root: Schema) -> str:
    """Put a JSON Schema into words: "a whole number from 1 to 100", "one of low, medium, high"."""
    return _in_words(schema, root, with_entries=True)


def _in_words(schema: Schema, root: Schema, *, with_entries: bool) -> str:
    forms = dict.fromkeys(_of_form(form, root, with_entries=with_entries) for form in forms_of(schema, root))
    if "a number" in forms:
        forms.pop("a whole number", None)
    # Where a form is a listing, another comma would read as one more of it.
    return ("; or " if any("," in form for form in forms) else " or ").join(forms)


def _of_form(schema: Schema, root: Schema, *, with_entries: bool) -> str:
    if "enum" in schema:
        return f"one of {', '.join(str(value) for value in schema['enum'])}"
    if "const" in schema:
        return str(schema["const"])
    match schema.get("type"):
        case "string":
            matching = f" that matches {schema['pattern']}" if "pattern" in schema else ""
            return f"text{_span(schema, 'minLength', 'maxLength', ' characters')}{matching}"
        case "integer":
            return f"a whole number{_span(schema, 'minimum', 'maximum')}"
        case "number":
            return f"a number{_span(schema, 'minimum', 'maximum')}"
        case "boolean":
            return "true or false"
        case "array":
            span = _span(schema, "minItems", "maxItems", " entries")
            # A list may hold lists of its own kind.
            entries = _in_words(schema.get("items", {}), root, with_entries=False) if with_entries else None
            return f"a list{span}, each {entries}" if entries else f"a list{span}"
        case "object":
            names = ", ".join(schema.get("properties", {}))
            return f"an object with {names}" if names else "an object"
    return "a valid value"


def _of_likeliest_form(findings: list[Finding]) -> list[Finding]:
    """Choose the form that was probably meant: the one with the fewest findings, then the deepest.

    Of several findings at one place the first counts.
    """
    of_forms: dict[tuple[str, ...], list[Finding]] = defaultdict(list)
    for finding in findings:
        of_forms[finding[0].forms].append(finding)
    likeliest = min(of_forms.values(), key=lambda alike: (len(alike), -len(alike[0][1]["loc"])))
    of_places: dict[str, Finding] = {}
    for finding in likeliest:
        of_places.setdefault(finding[0].name, finding)
    return list(of_places.values())


def _sentence(place: ParameterPlace, detail: ErrorDetails, root: Schema) -> str:
    code = _CODES.get(detail["type"])
    if code is UNKNOWN_PARAMETER:
        names = dict.fromkeys(name for form in forms_of(place.schema, root) for name in form.get("properties", {}))
        taker = "the tool" if len(detail["loc"]) == 1 else "that object"
        return f"There is no parameter '{place.name}'; {taker} takes {', '.join(names)}."
    if detail["type"] == "value_error":
        expected = str(detail["ctx"]["error"])
    elif detail["type"] == "string_unicode":
        expected = "valid Unicode text, without lone surrogates"
    else:
        expected = expectation(place.schema, root)
    if code is MISSING_PARAMETER:
        return f"Parameter '{place.name}' is required: {expected}."
    return f"Parameter '{place.name}' must be {expected}."


def _span(schema: Schema, low: str, high: str, unit: str = "") -> str:
    least, most = (_plain(schema.get(name)) for name in (low, high))
    match (least, most):
        case (None, None):
            return ""
        case (None, _):
            return f" of at most {most}{_of_one(unit) if most == 1 else unit}"
        case (_, None):
            return f" of at least {least}{_of_one(unit) if least == 1 else unit}"
    return f" of {least} to {most}{unit}" if unit else f" from {least} to {most}"


def _of_one(unit: str) -> str:
    return unit.replace("ies", "y").removesuffix("s")


def _plain(bound: float | None) -> float | None:
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound
