"""Describe tools to a model: as text (W-04), and as the schema of the one function that chooses a request (W-05).

Tool configurations come from users and third-party documents. So each of their texts becomes one line of bounded length
that cannot close its block, and credentials are left out (W-08).

The function's schema has only the arguments' names and types, in keywords that all endpoints accept: some do not know
`$ref`. Descriptions, choices and limits are in the texts. The model's arguments are checked against the configuration's
own schema.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, get_args

from toolweave.nodes.workflow.state import ToolOption
from toolweave.redact import KnownSecrets, sort_longest_first
from toolweave.tool_config import Method, ToolConfig

_VARIABLE_REFERENCE = re.compile(r"\{env:[^{}\n]{0,200}\}?")
MIN_SECRET_LENGTH = 4
"""Shorter texts occur in ordinary words, too; hiding them would spoil descriptions."""


def tool_secrets(tool: ToolConfig) -> KnownSecrets:
    """Return the literal secrets of `tool`, and its references to variables."""
    auth = tool.api.auth.value or ""
    texts = [tool.api.headers[name] for name in tool.secret_headers]
    # "Bearer abc" and "name:password" have more than one text to hide.
    parts = [part for text in [auth, *texts] for part in (text, *re.split(r"[\s:]+", text, maxsplit=1))]
    literal = (part.strip() for part in parts if "{env:" not in part)
    return KnownSecrets([*sort_longest_first(literal, MIN_SECRET_LENGTH), _VARIABLE_REFERENCE])


MAX_TOTAL_CHARS = 60_000
"""Characters of the descriptions of all tools together."""
MAX_TOOL_CHARS = 4_000
MIN_TOOL_CHARS = 700
MAX_TEXT_CHARS = 1_000
MAX_NAME_CHARS = 200
MAX_FIELDS = 60
MAX_FIELD_DEPTH = 3
CUT_MARK = "… (shortened)"
_TOOL_TAG = re.compile(r"<(?=\s*/?\s*tool)", re.IGNORECASE)
_SCHEMA_RULES = (
    *("const", "enum", "format", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("minLength", "maxLength", "minItems", "maxItems", "default"),
)
_DEFINITION_REF = re.compile(r"#/(\$defs|definitions)/([^/]+)")
MAX_ALL_OF_PARTS = 50


def tool_candidates(tools: Sequence[ToolConfig]) -> list[ToolOption]:
    """Describe tools for a model; the more tools, the shorter each description."""
    limit = max(MIN_TOOL_CHARS, min(MAX_TOOL_CHARS, MAX_TOTAL_CHARS // max(len(tools), 1)))
    return [ToolOption(tool_id=tool.tool_id, name=tool.name, description=describe_tool(tool, limit)) for tool in tools]


def describe_tool(tool: ToolConfig, max_chars: int = MAX_TOOL_CHARS) -> str:
    """Describe one tool in at most `max_chars`: name, tool_id, description, endpoint, parameters, expected output.

    The text is a block of its own, `<tool>` to `</tool>`, which no text of the configuration can close.
    """
    secrets = tool_secrets(tool)
    lines = [
        f"name: {one_line(secrets.hide(tool.name), MAX_NAME_CHARS)}",
        f"tool_id: {tool.tool_id}",
        f"description: {one_line(secrets.hide(tool.description), MAX_TEXT_CHARS)}",
        f"endpoint: {tool.api.method} {one_line(secrets.hide(tool.api.base_url + tool.api.path), MAX_TEXT_CHARS)}",
        *_section("parameters", _parameter_lines(tool, secrets)),
        *_section("expected output", _output_lines(tool, secrets)),
    ]
    return f"<tool>\n{_cut_lines(lines, max_chars - len('<tool></tool>') - 2)}\n</tool>"


def one_line(text: str, max_chars: int) -> str:
    """Return a text as one line that cannot close a description block, cut to `max_chars`."""
    printable = "".join(character if character.isprintable() else " " for character in text[: max_chars * 2])
    escaped = _TOOL_TAG.sub("‹", " ".join(printable.split()))
    return escaped if len(escaped) <= max_chars and len(text) <= max_chars * 2 else escaped[:max_chars] + "…"


def _cut_lines(lines: Sequence[str], max_chars: int) -> str:
    text = "\n".join(lines)
    if len(text) <= max_chars:
        return text
    return text[: max_chars - len(CUT_MARK) - 1].rpartition("\n")[0][: max_chars - len(CUT_MARK) - 1] + "\n" + CUT_MARK


def _section(title: str, lines: Iterator[str]) -> list[str]:
    listed = list(islice(lines, MAX_FIELDS + 1))
    if len(listed) > MAX_FIELDS:
        listed[MAX_FIELDS:] = ["- … and more"]
    return [f"{title}:", *listed] if listed else [f"{title}: none"]


def _parameter_lines(tool: ToolConfig, secrets: KnownSecrets) -> Iterator[str]:
    root = _bounded_schema(tool.input_schema, secrets)
    for name, place in tool.request_locations.items():
        shown = secrets.hide(name)
        needed = "required" if name in tool.required_fields or place.part == "path" else "optional"
        where = place.part if place.steps == (name,) else f"{place.part} {secrets.hide(place.name)}"
        yield from _field_lines(shown, root["properties"].get(shown), [where, needed], root)


def _output_lines(tool: ToolConfig, secrets: KnownSecrets) -> Iterator[str]:
    root = _bounded_schema(tool.output_schema, secrets)
    mapped: dict[str, Any] = {secrets.hide(name): {} for name in tool.field_mappings.response}
    fields = {**mapped, **root.get("properties", {})} or ({"answer": root} if root else {})
    for name, schema in fields.items():
        yield from _field_lines(name, schema, [], root)


def _bounded_schema(schema: Mapping[str, Any], secrets: KnownSecrets) -> dict[str, Any]:
    """Return a schema without secrets, its long texts and lists cut once for all fields that refer to them."""

    def cut(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: cut(item) for name, item in value.items()}
        if isinstance(value, list):
            return [cut(item) for item in value[: MAX_TEXT_CHARS // 2]]
        return value[:MAX_TEXT_CHARS] if isinstance(value, str) else value

    found: dict[str, Any] = cut(secrets.hide_in_json(schema))
    return found


def _field_lines(name: str, schema: Any, tags: Sequence[str], root: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """Yield a field, `- limit (integer, query, optional, maximum 50): how many`, then its inner fields, indented."""
    field = resolve_schema(schema, root)
    rules = [f"{rule} {json.dumps(field[rule], ensure_ascii=False)}" for rule in _SCHEMA_RULES if rule in field]
    facts = one_line(", ".join([_type_text(field), *tags, *rules]), MAX_TEXT_CHARS)
    description = one_line(field.get("description") or field.get("title") or "", MAX_TEXT_CHARS // 2)
    yield "  " * depth + f"- {one_line(name, MAX_NAME_CHARS)} ({facts})" + (description and f": {description}")
    inner = resolve_schema(field["items"], root) if "items" in field else field
    for each, below in inner.get("properties", {}).items() if depth < MAX_FIELD_DEPTH - 1 else ():
        needed = "required" if each in inner.get("required", ()) else "optional"
        yield from _field_lines(each, below, [needed], root, depth + 1)


def _type_text(field: Mapping[str, Any]) -> str:
    branches = [branch for branch in field.get("anyOf") or field.get("oneOf") or () if isinstance(branch, dict)]
    kinds = field.get("type") or [branch["type"] for branch in branches if "type" in branch]
    return " or ".join(dict.fromkeys([kinds] if isinstance(kinds, str) else kinds)) or "any"


def resolve_schema(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """Resolve references to definitions of the same document, and merge the parts of `allOf`."""
    whole = _follow_references(schema, root)
    for part in [_follow_references(part, root) for part in whole.get("allOf", ())[:MAX_ALL_OF_PARTS]]:
        properties = {**whole.get("properties", {}), **part.get("properties", {})}
        required = [*whole.get("required", ()), *part.get("required", ())]
        whole = {**part, **whole} | ({"properties": properties, "required": required} if properties else {})
    return whole


def _follow_references(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema at the end of a few references; an empty schema for a broken reference."""
    for _ in range(8):
        if not isinstance(schema, dict):
            return {}
        if "$ref" not in schema:
            return schema
        found = _DEFINITION_REF.fullmatch(schema["$ref"])
        target = root.get(found[1], {}).get(found[2]) if found else root if schema["$ref"] == "#" else None
        beside = {word: value for word, value in schema.items() if word != "$ref"}
        schema = target | beside if isinstance(target, dict) else beside
    return {}


MAX_SUBSCHEMAS = 400
"""Schemas inside one schema; those beyond become `{}`."""
MAX_SCHEMA_DEPTH = 8
MAX_CHOICE_CHARS = 100
MAX_CHOICES = 200


def plain_schema(root: Mapping[str, Any], *, texts: bool = True) -> dict[str, Any]:
    """Return an object's schema without references, of bounded size and depth; `texts` keeps descriptions."""
    remaining = MAX_SUBSCHEMAS

    def plain(schema: Any, depth: int) -> dict[str, Any]:
        nonlocal remaining
        remaining -= 1
        if remaining < 0 or depth > MAX_SCHEMA_DEPTH:
            return {}
        found = resolve_schema(schema, root)
        about = (
            {"description": one_line(found["description"], MAX_TEXT_CHARS)} if texts and "description" in found else {}
        )
        shaped = shape(found, depth)
        if "anyOf" in shaped:
            # Some endpoints accept no other keyword beside anyOf.
            return {
                "anyOf": [{"type": "null"} if each.get("type") == "null" else about | each for each in shaped["anyOf"]]
            }
        return shaped | about

    def shape(found: Mapping[str, Any], depth: int) -> dict[str, Any]:
        kind, properties = found.get("type"), found.get("properties", {})
        if isinstance(kind, list):
            branches = [{**found, "type": each} for each in kind]
        else:
            branches = [] if properties else found.get("anyOf") or found.get("oneOf") or []
        if branches:
            forms = [plain(branch, depth + 1) for branch in branches]
            return forms[0] if len(forms) == 1 else {"anyOf": forms}
        if kind == "object" or (properties and kind is None):
            fields = {name: plain(field, depth + 1) for name, field in properties.items()}
            required = [name for name in fields if name in found.get("required", ())]
            return {"type": "object", "properties": fields, **({"required": required} if required else {})}
        if kind == "array":
            return {"type": "array", "items": plain(found.get("items"), depth + 1) or {"type": "string"}}
        if kind in ("string", None) and (choices := _text_choices(found)):
            return {"type": "string", "enum": choices}
        limits = {rule: found[rule] for rule in ("minimum", "maximum") if rule in found}
        return {"type": kind, **limits} if kind else {}

    return {"properties": {}, **plain(root, 0), "type": "object"}


def _text_choices(found: Mapping[str, Any]) -> list[str]:
    """Return the choices if all are short texts, the only kind that all endpoints accept."""
    choices = [found["const"]] if "const" in found else found.get("enum", [])
    present = [choice for choice in choices if choice is not None]
    fit = all(isinstance(choice, str) and 0 < len(choice) <= MAX_CHOICE_CHARS for choice in present)
    return list(dict.fromkeys(present)) if fit and len(present) <= MAX_CHOICES else []


FUNCTION_NAME = "choose_request"
"""Name of the function that the model calls."""
MAX_SCHEMA_CHARS = 60_000
"""Characters of all input schemas. Larger ones lose their descriptions; if still larger, they are left out."""
_PURPOSE = (
    "Choose the tool and the request that does what the user asks for. Give tool_id and arguments; or, if no tool "
    "fits or a value that is needed is missing, give only reason."
)
_HTTP_SPEC_SCHEMA = {
    "type": "object",
    "description": "The request as it will be sent, without credentials. It must agree with arguments.",
    "properties": {
        "method": {"type": "string", "enum": list(get_args(Method))},
        "url": {"type": "string", "description": "The whole URL with its placeholders filled in, without the query."},
        "headers": {"type": "object", "description": "Leave it out: headers are added when the request is sent."},
        "query": {"type": "object", "description": "Names and values of the query."},
        "body": {"type": "object", "description": "The JSON body."},
    },
    "required": ["method", "url"],
}
_REASON_SCHEMA = {
    "type": "string",
    "description": "Only if no request can be made: why no tool fits, or which value the user has to add.",
}


def selection_schema(tools: Sequence[ToolConfig]) -> dict[str, Any]:
    """Return an OpenAI function with `tool_id`, `arguments`, `http_spec` and `reason`; none of them is required."""
    ids = [tool.tool_id for tool in tools]
    properties = {
        "tool_id": {"type": "string", "enum": ids, "description": "The tool_id of the chosen tool."},
        "arguments": _arguments_schema(tools),
        "http_spec": _HTTP_SPEC_SCHEMA,
        "reason": _REASON_SCHEMA,
    }
    return {"name": FUNCTION_NAME, "description": _PURPOSE, "parameters": {"type": "object", "properties": properties}}


def _arguments_schema(tools: Sequence[ToolConfig]) -> dict[str, Any]:
    """Allow the arguments of any of the tools; each schema's title is the id of its tool."""
    for texts in (True, False):
        forms = [_tool_arguments_schema(tool, texts=texts) for tool in tools]
        if len(json.dumps(forms)) <= MAX_SCHEMA_CHARS:
            return forms[0] if len(forms) == 1 else {"anyOf": forms}
    return {"type": "object", "description": "The chosen tool's arguments, as its description lists them."}


def _tool_arguments_schema(tool: ToolConfig, *, texts: bool) -> dict[str, Any]:
    secrets = tool_secrets(tool)
    about = one_line(secrets.hide(f"{tool.name}: {tool.description}"), MAX_NAME_CHARS)
    return {
        **plain_schema(secrets.hide_in_json(tool.input_schema), texts=texts),
        "title": tool.tool_id,
        "description": about,
    }
