"""Read a person's answer to a server's question as the flat object that the question's schema wants (S-07).

A schema comes from any server. Only its fields' own keywords matter: MCP allows nothing deeper.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from toolweave.nodes.human_interrupt import HumanResponse, Unusable
from toolweave.nodes.tool_task import Answer, Question
from toolweave.schema import Schema

MOST_SHOWN = 20
_TRUTH = {"yes": True, "true": True, "no": False, "false": False}


def answer_to(question: Question, response: HumanResponse) -> Answer:
    """Read one answer: approve takes the defaults, respond gives an object or its text, reject declines.

    Raises:
        Unusable: the answer does not fit the schema, or is an edit.
    """
    if response.kind == "reject":
        return {**question, "action": "decline", "content": None}
    if response.kind == "edit":
        raise Unusable("there is nothing to edit: respond with the answer.")
    given = {} if response.kind == "approve" else _content(response.args, _fields(question["requestedSchema"]))
    content = _defaults(question["requestedSchema"]) | given
    if problems := _problems(content, question["requestedSchema"]):
        raise Unusable("; ".join(problems))
    return {**question, "action": "accept", "content": content}


def can_be_empty(question: Question) -> bool:
    """Say whether a mere yes answers the question: no field is required that has no default."""
    return not _problems(_defaults(question["requestedSchema"]), question["requestedSchema"])


def described_fields(schema: Mapping[str, Any]) -> str:
    """List the fields of an answer for a person to read, each on a line."""
    required = schema.get("required")
    lines = []
    for name, field in list(_fields(schema).items())[:MOST_SHOWN]:
        needed = "" if isinstance(required, list) and name in required else ", optional"
        words = field.get("description") or field.get("title") or ""
        choices = f" of {_compact(field['enum'])}" if isinstance(field.get("enum"), list) else ""
        lines.append(f"\n- {name} ({field.get('type', 'any')}{choices}{needed}) {words}".rstrip())
    return "".join(lines)


def _fields(schema: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    return {name: field for name, field in known.items() if isinstance(field, dict)}


def _defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {name: field["default"] for name, field in _fields(schema).items() if "default" in field}


def _content(args: Any, fields: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Take an object as it is, a text as JSON for one, and a plain text as the value of the only field."""
    read = _json(args) if isinstance(args, str) else args
    if isinstance(read, dict):
        return read
    if len(fields) != 1:
        raise Unusable(f"respond with an object with the fields {', '.join(fields) or '(none)'}.")
    [(name, field)] = fields.items()
    if not isinstance(args, str):
        return {name: args}
    if field.get("type") == "boolean":
        return {name: _TRUTH.get(args.strip().lower(), args)}
    return {name: read if field.get("type") in ("integer", "number", "array") else args}


def _problems(content: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    fields = _fields(schema)
    unknown = [f"there is no field {name[:100]!r}" for name in content if name not in fields]
    unsendable = [f"{name} is no plain value" for name, value in content.items() if not _is_plain(value)]
    if unknown or unsendable:
        return [*unknown, *unsendable]
    try:
        return Schema(schema).problems(dict(content))
    except ValueError:
        # No schema at all: the server judges what it gets.
        return []


def _is_plain(value: object) -> bool:
    """Say whether MCP can carry a value: text, number, truth value, nothing, or a list of texts."""
    match value:
        case None | bool() | int():
            return True
        case float():
            return math.isfinite(value)
        case str():
            return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)
        case list():
            return all(isinstance(item, str) and _is_plain(item) for item in value)
        case _:
            return False


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)[:500]
