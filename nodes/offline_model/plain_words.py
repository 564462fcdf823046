"""Say values, names and records in plain words, at bounded length."""

from collections.abc import Mapping
from typing import Any

from toolweave.nodes.offline_model.tools.records import Record

MOST_LINES = 50
_LONGEST_TEXT = 4000
_LONGEST_VALUE = 500
_LONGEST_SHOWN = 60
_MOST_ITEMS = 20
_LEFT_OUT = frozenset(
    {"id", "title", "name", "created_at", "updated_at", "completed_at", "created", "updated", "user_id", "owner_id"}
)


def label(name: str) -> str:
    """Write a parameter's name as words."""
    return name.replace("_", " ")


def plural(noun: str, count: int) -> str:
    """Give a noun in the number that a count asks for."""
    if count == 1:
        return noun
    if noun.endswith("y") and noun[-2:-1] not in "aeou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "sh", "ch")) else f"{noun}s"


def plain(value: Any) -> str:
    """Say any JSON value on one line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(plain(item) for item in value[:_MOST_ITEMS])[:_LONGEST_VALUE] or "empty"
    if isinstance(value, Mapping):
        told = (f"{label(str(name))} {plain(inner)}" for name, inner in list(value.items())[:_MOST_ITEMS])
        return "; ".join(told)[:_LONGEST_VALUE]
    return "nothing" if value is None else str(value)[:_LONGEST_VALUE]


def shortened(text: str) -> str:
    """Cut a long text and say how long it is."""
    if len(text) <= _LONGEST_TEXT:
        return text
    return f"{text[:_LONGEST_TEXT].rstrip()} … ({len(text)} characters in all)"


def details(values: Mapping[str, Any], title: str) -> str:
    """Say the fields of a thing that are worth saying after its title, each led by a comma."""
    told = [
        f", {label(str(name))} {plain(value)}"
        for name, value in values.items()
        if name not in _LEFT_OUT and value not in (None, "", [], {}, title)
    ]
    return "".join(told)


def record_line(record: Record) -> str:
    """Say a record as one line of a list."""
    shown = {
        name: value
        for name, value in record.data.items()
        if value != record.id
        and ((isinstance(value, str | int | float) and len(str(value)) <= _LONGEST_SHOWN) or isinstance(value, list))
    }
    return f"- {record.title or record.id} (id {record.id}{details(shown, record.title)})"


def listed(lines: list[str]) -> list[str]:
    """Keep as many lines as a reader wants, and say how many there are beyond."""
    beyond = len(lines) - MOST_LINES
    return lines if beyond <= 0 else [*lines[:MOST_LINES], f"… and {beyond} more."]
