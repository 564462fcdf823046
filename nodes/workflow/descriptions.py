"""Tell a model in structured text what each tool does, where, with what, and what comes back (W-04).

Configurations come from users and from documents of others. So each text of theirs is one line that cannot end the
block it stands in, its length is bounded, and credentials are no part of it (W-08).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from toolweave.nodes.workflow.state import Candidate
from toolweave.nodes.workflow.withheld import Clean, cleaned, withholding
from toolweave.tool_config import ToolConfig

LONGEST_OF_ALL = 60_000
LONGEST = 4_000
SHORTEST = 700
LONGEST_TEXT = 1_000
LONGEST_NOTE = 200
MOST_FIELDS = 60
DEEPEST = 3
CUT = "… (shortened)"

_TAG = re.compile(r"<(?=\s*/?\s*tool)", re.IGNORECASE)
_RULES = (
    *("format", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("minLength", "maxLength", "minItems", "maxItems", "default"),
)


def as_candidates(tools: Sequence[ToolConfig]) -> list[Candidate]:
    """Describe tools for a model; the more there are, the shorter each description may be."""
    room = max(SHORTEST, min(LONGEST, LONGEST_OF_ALL // max(len(tools), 1)))
    return [Candidate(tool_id=tool.tool_id, name=tool.name, description=describe(tool, room)) for tool in tools]


def describe(tool: ToolConfig, room: int = LONGEST) -> str:
    """Describe one tool: name, tool_id, description, endpoint, parameters, expected output; at most `room` characters.

    It stands in a block of its own, `<tool>` to `</tool>`, in which no text of the configuration can end it.
    """
    clean = withholding(tool)
    lines = [
        f"name: {one_line(clean(tool.name), LONGEST_NOTE)}",
        f"tool_id: {tool.tool_id}",
        f"description: {one_line(clean(tool.description), LONGEST_TEXT)}",
        f"endpoint: {tool.api.method} {one_line(clean(tool.api.base_url + tool.api.path), LONGEST_TEXT)}",
        *_section("parameters", _parameters(tool, clean)),
        *_section("expected output", _output(tool, clean)),
    ]
    return f"<tool>\n{_fitting(lines, room - len('<tool></tool>') - 2)}\n</tool>"


def concatenated(candidates: Sequence[Candidate]) -> str:
    """Put the descriptions of the candidates one below the other."""
    return "\n".join(candidate["description"] for candidate in candidates)


def one_line(text: str, longest: int) -> str:
    """Return a text as one line that cannot end a block of descriptions, cut where it is too long."""
    begun = _TAG.sub("‹", " ".join(_printable(text[: longest * 2]).split()))
    return begun if len(begun) <= longest and len(text) <= longest * 2 else begun[:longest] + "…"


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else " " for character in text)


def _fitting(lines: Sequence[str], room: int) -> str:
    text = "\n".join(lines)
    if len(text) <= room:
        return text
    return text[: room - len(CUT) - 1].rpartition("\n")[0][: room - len(CUT) - 1] + "\n" + CUT


def _section(title: str, lines: Iterator[str]) -> list[str]:
    listed = list(islice(lines, MOST_FIELDS + 1))
    if len(listed) > MOST_FIELDS:
        listed[MOST_FIELDS:] = ["- … and more"]
    return [f"{title}:", *listed] if listed else [f"{title}: none"]


def _parameters(tool: ToolConfig, clean: Clean) -> Iterator[str]:
    places = tool.places
    root = cleaned(tool.input_schema, clean)
    fields = _properties(root, root)
    for name in tool.input_fields:
        place, field = places[name], fields.get(clean(name))
        needed = "required" if name in tool.required_fields or place.part == "path" else "optional"
        where = place.part if place.steps == (name,) else f"{place.part} {clean(place.name)}"
        yield _field(clean(name), field, [where, needed], root)
        yield from _fields_inside(field, root, 1)


def _output(tool: ToolConfig, clean: Clean) -> Iterator[str]:
    root = cleaned(tool.output_schema, clean)
    fields = _properties(root, root)
    names = dict.fromkeys([*(clean(name) for name in tool.field_mappings.response), *fields])
    for name in names:
        yield _field(name, fields.get(name, {}), [], root)
        yield from _fields_inside(fields.get(name, {}), root, 1)
    if root and not names:
        yield _field("answer", root, [], root)
        yield from _fields_inside(root, root, 1)


def _fields_inside(schema: Any, root: Mapping[str, Any], depth: int) -> Iterator[str]:
    inner = local(schema, root)
    if inner.get("type") == "array":
        inner = local(inner.get("items"), root)
    required = inner.get("required")
    for name, field in _properties(inner, root).items() if depth < DEEPEST else ():
        needed = "required" if isinstance(required, list) and name in required else "optional"
        yield "  " * depth + _field(name, field, [needed], root)
        yield from _fields_inside(field, root, depth + 1)


def _field(name: str, schema: Any, notes: Sequence[str], root: Mapping[str, Any]) -> str:
    """Write one field: `- limit (integer, query, optional, maximum 50): how many`."""
    field = local(schema, root)
    rules = [f"{rule} {_compact(field[rule])}" for rule in _RULES if rule in field]
    facts = ", ".join(part for part in (_type(field), *notes, *_choices(field), *rules) if part)
    words = one_line(str(field.get("description") or field.get("title") or ""), LONGEST_TEXT // 2)
    return f"- {one_line(name, LONGEST_NOTE)} ({one_line(facts, LONGEST_TEXT)})" + (words and f": {words}")


def _type(field: Mapping[str, Any]) -> str:
    kind = field.get("type")
    if isinstance(kind, list):
        return " or ".join(str(name) for name in kind)
    branches: list[Any] = next((field[word] for word in ("anyOf", "oneOf") if isinstance(field.get(word), list)), [])
    kinds = [str(branch["type"]) for branch in branches if isinstance(branch, dict) and "type" in branch]
    return str(kind) if kind else " or ".join(dict.fromkeys(kinds)) or "any"


def _choices(field: Mapping[str, Any]) -> list[str]:
    if "const" in field:
        return [f"always {_compact(field['const'])}"]
    choices = field.get("enum")
    return [f"one of {_compact(choices)}"] if isinstance(choices, list) else []


def _properties(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    properties = local(schema, root).get("properties")
    return properties if isinstance(properties, dict) else {}


def local(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """Follow references into the same document, a few at most; what leads nowhere is an empty schema."""
    for _ in range(8):
        if not isinstance(schema, dict):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        schema = {**_at(reference, root), **{name: item for name, item in schema.items() if name != "$ref"}}
    return {}


def _at(reference: str, root: Mapping[str, Any]) -> dict[str, Any]:
    found: Any = root
    for step in reference.removeprefix("#").split("/")[1:] if reference.startswith("#") else [""]:
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def begun_json(value: Any, longest: int) -> str:
    """Write the first characters of a value's JSON, and not the rest: schemas hold choices of any number and length."""
    if isinstance(value, str):
        value = value[:longest]
    if isinstance(value, list):
        value = [item[:longest] if isinstance(item, str) else item for item in value[:longest]]
    written = ""
    for piece in json.JSONEncoder(ensure_ascii=False, default=str).iterencode(value):
        written += piece[:longest]
        if len(written) >= longest:
            break
    return written[:longest]


def _compact(value: Any) -> str:
    return begun_json(value, LONGEST_TEXT)
