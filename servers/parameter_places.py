"""Find where in a tool's input a finding of pydantic is, `filters[0].op`, and what the schema says of it (C-07)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Schema = Mapping[str, Any]
_REFERENCE = "#/$defs/"


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a tool's input; `forms` are the forms of a union that pydantic tried on the way to it."""

    name: str
    schema: Schema
    forms: tuple[str, ...]


def place_of(location: tuple[int | str, ...], schema: Schema, *, is_unknown: bool = False) -> Place:
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
    return Place(_joined(name, location[-1]) if is_unknown else name, here, forms)


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
