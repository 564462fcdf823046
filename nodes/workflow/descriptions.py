"""Describe tools to a model: as text (W-04), and as the schema of the one function that chooses a request (W-05).

Configurations come from users and from documents of others. So each text of theirs is one line that cannot end the
block it stands in, its length is bounded, and credentials are no part of it (W-08).

In the function's schema, references are replaced by what they lead to, since some endpoints know no `$ref`, and only
keywords that all endpoints take are kept; the others are said in words. It tells the model what to write, no more:
what it writes is checked against the configuration's own schema.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, get_args

from toolweave.nodes.workflow.state import Candidate
from toolweave.redact import KnownSecrets, longest_first
from toolweave.tool_config import Method, ToolConfig

_REFERENCE = re.compile(r"\{env:[^{}\n]{0,200}\}?")
SHORTEST_SECRET = 4
"""What is shorter stands in ordinary words, too, and is no secret worth the name."""


def secrets_of(tool: ToolConfig) -> KnownSecrets:
    """Return the literal secrets of `tool`, and its references to variables."""
    auth = tool.api.auth.value or ""
    texts = [tool.api.headers[name] for name in tool.secret_headers]
    # "Bearer abc" and "name:password" hold more than one text that must not be told.
    parts = [part for text in [auth, *texts] for part in (text, *re.split(r"[\s:]+", text, maxsplit=1))]
    literal = (part.strip() for part in parts if "{env:" not in part)
    return KnownSecrets([*longest_first(literal, SHORTEST_SECRET), _REFERENCE])


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
    secrets = secrets_of(tool)
    lines = [
        f"name: {one_line(secrets.hide(tool.name), LONGEST_NOTE)}",
        f"tool_id: {tool.tool_id}",
        f"description: {one_line(secrets.hide(tool.description), LONGEST_TEXT)}",
        f"endpoint: {tool.api.method} {one_line(secrets.hide(tool.api.base_url + tool.api.path), LONGEST_TEXT)}",
        *_section("parameters", _parameters(tool, secrets)),
        *_section("expected output", _output(tool, secrets)),
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


def _parameters(tool: ToolConfig, secrets: KnownSecrets) -> Iterator[str]:
    places = tool.places
    root = secrets.hide_in(tool.input_schema)
    fields = _properties(root, root)
    for name in tool.input_fields:
        place, field = places[name], fields.get(secrets.hide(name))
        needed = "required" if name in tool.required_fields or place.part == "path" else "optional"
        where = place.part if place.steps == (name,) else f"{place.part} {secrets.hide(place.name)}"
        yield _field(secrets.hide(name), field, [where, needed], root)
        yield from _fields_inside(field, root, 1)


def _output(tool: ToolConfig, secrets: KnownSecrets) -> Iterator[str]:
    root = secrets.hide_in(tool.output_schema)
    fields = _properties(root, root)
    names = dict.fromkeys([*(secrets.hide(name) for name in tool.field_mappings.response), *fields])
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
    rules = [f"{rule} {begun_json(field[rule], LONGEST_TEXT)}" for rule in _RULES if rule in field]
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
        return [f"always {begun_json(field['const'], LONGEST_TEXT)}"]
    choices = field.get("enum")
    return [f"one of {begun_json(choices, LONGEST_TEXT)}"] if isinstance(choices, list) else []


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


MOST_PARTS = 400
"""Schemas inside one schema; what comes after so many is left open."""
DEEPEST_SCHEMA = 8
LONGEST_DESCRIPTION = 500
LONGEST_CHOICE = 100
MOST_CHOICES = 200
MOST_JOINED = 50
_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})
_NUMBERS = frozenset({"minimum", "maximum"})
_SAID = ("format", "pattern", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "multipleOf")
_LONGEST_RULE = 120


def plain_schema(schema: Mapping[str, Any], *, wordless: bool = False) -> dict[str, Any]:
    """Return a schema of an object without references, of bounded size and depth; `wordless`: no descriptions."""
    return {**_Rewriting(schema, wordless=wordless).rewritten(dict(schema), 0), "type": "object"}


class _Rewriting:
    def __init__(self, root: Mapping[str, Any], *, wordless: bool) -> None:
        self._root = root
        self._words = (lambda _schema: {}) if wordless else _words
        self._left = MOST_PARTS

    def rewritten(self, schema: Any, depth: int) -> dict[str, Any]:
        self._left -= 1
        if self._left < 0 or depth > DEEPEST_SCHEMA:
            return {}
        found = _merged(local(schema, self._root), self._root)
        branches = self._branches(found, depth)
        if len(branches) == 1:
            return {**branches[0], **self._words(found)}
        if branches:
            # Beside anyOf some endpoints take no other keyword.
            words = self._words(found)
            return {"anyOf": [branch if branch.get("type") == "null" else words | branch for branch in branches]}
        return {**self._of_type(found, depth), **self._words(found)}

    def _branches(self, found: dict[str, Any], depth: int) -> list[dict[str, Any]]:
        """Give the alternatives that the schema names, a list of types among them."""
        for word in ("anyOf", "oneOf"):
            if isinstance(found.get(word), list) and "properties" not in found:
                return [self.rewritten(branch, depth + 1) for branch in found[word]]
        kinds = found.get("type")
        if isinstance(kinds, list):
            return [self._of_type({**found, "type": kind}, depth) for kind in kinds]
        return []

    def _of_type(self, found: dict[str, Any], depth: int) -> dict[str, Any]:
        kind = found.get("type") or _implied(found)
        plain: dict[str, Any] = {"type": kind} if isinstance(kind, str) and kind in _TYPES else {}
        if kind == "object":
            return {**plain, **self._object(found, depth)}
        if kind == "array":
            return {**plain, "items": self.rewritten(found.get("items", {}), depth + 1) or {"type": "string"}}
        if kind in ("integer", "number"):
            return {**plain, **{rule: found[rule] for rule in _NUMBERS & found.keys() if _is_number(found[rule])}}
        if kind == "string" and (choices := _text_choices(found)):
            return {**plain, "enum": choices}
        return {**plain, "format": "date-time"} if found.get("format") == "date-time" else plain

    def _object(self, found: dict[str, Any], depth: int) -> dict[str, Any]:
        properties = found.get("properties")
        fields = properties if isinstance(properties, dict) else {}
        required = found.get("required")
        needed = [name for name in required if name in fields] if isinstance(required, list) else []
        rewritten = {name: self.rewritten(field, depth + 1) for name, field in fields.items()}
        return {"properties": rewritten, **({"required": needed} if needed else {})}


def _merged(found: dict[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    """Join what `allOf` says of the same value."""
    parts = found.get("allOf")
    if not isinstance(parts, list):
        return found
    whole = {name: item for name, item in found.items() if name != "allOf"}
    for part in (local(part, root) for part in parts[:MOST_JOINED]):
        properties = {**_object_in(whole, "properties"), **_object_in(part, "properties")}
        required = list(dict.fromkeys([*_list_in(whole, "required"), *_list_in(part, "required")]))
        whole = {**part, **whole}
        whole |= {"properties": properties} if properties else {}
        whole |= {"required": required} if required else {}
    return whole


def _object_in(schema: Mapping[str, Any], word: str) -> dict[str, Any]:
    value = schema.get(word)
    return value if isinstance(value, dict) else {}


def _list_in(schema: Mapping[str, Any], word: str) -> list[Any]:
    value = schema.get(word)
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _implied(found: Mapping[str, Any]) -> str | None:
    if "properties" in found:
        return "object"
    if "items" in found:
        return "array"
    return "string" if _text_choices(found) else None


def _text_choices(found: Mapping[str, Any]) -> list[str]:
    """Give the choices where all of them are short texts; of the others only words can tell."""
    choices = [found["const"]] if "const" in found else found.get("enum")
    if not isinstance(choices, list) or len(choices) > MOST_CHOICES:
        return []
    given = [choice for choice in choices if choice is not None]
    fit = all(isinstance(choice, str) and 0 < len(choice) <= LONGEST_CHOICE for choice in given)
    return list(dict.fromkeys(given)) if fit else []


def _words(found: Mapping[str, Any]) -> dict[str, str]:
    """Keep the description, with the rules that only words can tell every endpoint."""
    said = [f"{rule}: {_short(found[rule])}" for rule in _SAID if rule in found and found[rule] != "date-time"]
    choices = [found["const"]] if "const" in found else found.get("enum")
    if isinstance(choices, list) and not _text_choices(found):
        said.append(f"one of {_short(choices)}")
    if "default" in found:
        said.append(f"default: {_short(found['default'])}")
    words = one_line(str(found.get("description") or found.get("title") or ""), LONGEST_DESCRIPTION)
    rules = f"({', '.join(said)})" if said else ""
    text = " ".join(part for part in (words, one_line(rules, LONGEST_DESCRIPTION)) if part)
    return {"description": text} if text else {}


def _short(value: Any) -> str:
    return begun_json(value, _LONGEST_RULE + 1).strip('"')[:_LONGEST_RULE]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15


CHOOSE = "choose_request"
"""The function's name."""
LONGEST_SCHEMAS = 60_000
"""Characters of all input schemas; above it they go without words, and then the tools' descriptions alone must do."""
_ABOUT = (
    "Choose the tool and the request that does what the user asks for. Give tool_id and arguments; or, if no tool "
    "fits or a value that is needed is missing, give only reason."
)
_HTTP_SPEC = {
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
_REASON = {
    "type": "string",
    "description": "Only if no request can be made: why no tool fits, or which value the user has to add.",
}


def selection_schema(tools: Sequence[ToolConfig]) -> dict[str, Any]:
    """Return an OpenAI function: `tool_id`, `arguments`, `http_spec`, `reason`; none of them alone is required."""
    ids = [tool.tool_id for tool in tools]
    properties = {
        "tool_id": {"type": "string", "enum": ids, "description": "The tool_id of the chosen tool."},
        "arguments": _arguments(tools),
        "http_spec": _HTTP_SPEC,
        "reason": _REASON,
    }
    return {"name": CHOOSE, "description": _ABOUT, "parameters": {"type": "object", "properties": properties}}


def _arguments(tools: Sequence[ToolConfig]) -> dict[str, Any]:
    """Allow the arguments of any of the tools; each form is titled with the id of its tool."""
    for wordless in (False, True):
        forms = [_form(tool, wordless=wordless) for tool in tools]
        if len(json.dumps(forms)) <= LONGEST_SCHEMAS:
            return forms[0] if len(forms) == 1 else {"anyOf": forms}
    return {"type": "object", "description": "The chosen tool's arguments, as its description lists them."}


def _form(tool: ToolConfig, *, wordless: bool) -> dict[str, Any]:
    secrets = secrets_of(tool)
    plain = plain_schema(secrets.hide_in(tool.input_schema), wordless=wordless)
    about = one_line(secrets.hide(f"{tool.name}: {tool.description}"), 100 if wordless else 300)
    return {**plain, "title": tool.tool_id, "description": about}
