"""Ask the person at the terminal what an interrupted run wants to know (S-07)."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from toolweave.cli.terminal import call_text, compact, harmless

Ask = Callable[[str], str]
# The words of Agent Inbox: what may be chosen, the answer's type, and the permission in the request's config.
CHOICES = {
    "approve": ("accept", "allow_accept"),
    "edit": ("edit", "allow_edit"),
    "reject": ("ignore", "allow_ignore"),
    "respond": ("response", "allow_respond"),
}


def ask_all(interrupts: Sequence[dict[str, Any]], ask: Ask) -> Any:
    """Ask about every interrupt and give the value to resume with: by interrupt id when there are several."""
    answers = [(interrupt.get("id"), ask_one(interrupt.get("value"), ask)) for interrupt in interrupts]
    return answers[0][1] if len(answers) == 1 else dict(answers)


def ask_one(value: Any, ask: Ask) -> Any:
    """Ask about one interrupt: approvals one by one, anything else as a question with a free answer."""
    if isinstance(value, list) and value and all(_is_approval(item) for item in value):
        return [_approval(item, ask) for item in value]
    if _is_approval(value):
        return [_approval(value, ask)]
    question = value if isinstance(value, str) else compact(value)
    return _as_json_or_text(ask(f"{harmless(question)}\nanswer> "))


def _is_approval(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("action_request"), dict)


def _approval(request: dict[str, Any], ask: Ask) -> dict[str, Any]:
    action = request["action_request"]
    arguments = action.get("args") or {}
    permissions = request.get("config") or {}
    allowed = [word for word, (_, permission) in CHOICES.items() if permissions.get(permission, True)]
    shown = request.get("description") or call_text(str(action.get("action")), arguments)
    question = f"{harmless(shown)}\n{' / '.join(allowed)}> "
    word = _one_of(allowed, ask, question)
    kind = CHOICES[word][0]
    if kind == "edit":
        return {"type": kind, "args": {"action": action.get("action"), "args": _object(ask, arguments)}}
    if kind == "response":
        return {"type": kind, "args": _answer(ask, arguments.get("requestedSchema"))}
    return {"type": kind, "args": None}


def _answer(ask: Ask, schema: Any) -> Any:
    """Ask for a text, or for each field where an MCP server asks for several; what is left empty is left out."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    fields = properties if isinstance(properties, dict) else {}
    if len(fields) < 2:
        return ask("your answer> ")
    given = {name: ask(f"{harmless(name)}> ") for name in fields}
    return {name: _field_value(fields[name], text) for name, text in given.items() if text.strip()}


def _field_value(field: Any, text: str) -> Any:
    kind = field.get("type") if isinstance(field, dict) else None
    if kind == "boolean":
        return {"yes": True, "no": False}.get(text.strip().lower(), _as_json_or_text(text))
    return text if kind == "string" else _as_json_or_text(text)


def _one_of(words: list[str], ask: Ask, question: str) -> str:
    while True:
        given = ask(question).strip().lower()
        found = [word for word in words if given and word.startswith(given)]
        if len(found) == 1 or given in words:
            return given if given in words else found[0]
        question = f"one of {', '.join(words)}> "


def _object(ask: Ask, before: dict[str, Any]) -> dict[str, Any]:
    question = f"arguments as JSON, now {compact(before)}> "
    while True:
        value = _as_json_or_text(ask(question))
        if isinstance(value, dict):
            return value
        question = "a JSON object, such as {}> "


def _as_json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
