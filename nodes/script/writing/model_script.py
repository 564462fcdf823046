"""Read the script or the notes that a model wrote, in the forms in which models and endpoints write them."""

import json
import re
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage

from toolweave.nodes.script.writing.material import Block, block_of
from toolweave.nodes.script.writing.writing_state import Draft
from toolweave.nodes.written_objects import as_object, written_objects

DEEPEST = 3
LONGEST_REPEATED = 20_000
_THOUGHTS = re.compile(r"<think>(?:(?!<think>).)*?</think>", re.DOTALL)
_NOBODY = frozenset({"", "none", "null"})


def read_draft(answer: AIMessage) -> Draft:
    """Take the first object that looks like a script, or else the first one, or only the text."""
    objects = [_unwrapped(value, "sections") for _, value in written_objects(answer)]
    written = next((value for value in objects if "sections" in value), objects[0] if objects else None)
    broken = [call["args"] or "" for call in answer.invalid_tool_calls]
    text = "\n".join(part for part in (answer.text, *broken) if part.strip())
    return Draft(written=None if written is None else _tidied(written), text=text[:LONGEST_REPEATED])


def read_notes(answer: AIMessage) -> list[Block]:
    """Take the notes with their headings, or a text of notes as it is; none if there are none."""
    for _, value in written_objects(answer):
        entries = _as_list(_unwrapped(value, "sections").get("sections"))
        blocks = [block for entry in entries if (block := _noted(entry)) is not None]
        if blocks:
            return blocks
    text = _THOUGHTS.sub("", answer.text).strip()
    called = answer.tool_calls or answer.invalid_tool_calls or as_object(text) is not None
    return [Block("", text)] if text and not called else []


def _unwrapped(value: dict[str, Any], wanted: str, depth: int = 0) -> dict[str, Any]:
    """Look into a call that was written as text, and into an object under one key."""
    if wanted in value or depth >= DEEPEST:
        return value
    inner = [value.get(key) for key in ("arguments", "parameters")] if "name" in value else list(value.values())
    for item in inner if len(value) <= DEEPEST else []:
        if (found := as_object(item)) is not None and wanted in (deeper := _unwrapped(found, wanted, depth + 1)):
            return deeper
    return value


def _tidied(written: dict[str, Any]) -> dict[str, Any]:
    """Give the form that is asked for where what was meant is plain: a text for a narration, lists as texts."""
    if "sections" not in written:
        return written
    sections = _as_list(written["sections"]) or written["sections"]
    return {**written, "sections": _each(sections, _tidied_section)}


def _tidied_section(section: dict[str, Any]) -> dict[str, Any]:
    tidied = dict(section)
    if _is_nobody(section.get("slide_prompt", "-")):
        tidied["slide_prompt"] = None
    if "narrations" in section:
        narrations = section["narrations"]
        if isinstance(narrations, str):
            narrations = _as_list(narrations) or [narrations]
        if isinstance(narrations, list):
            narrations = [{"text": item} if isinstance(item, str) else item for item in narrations]
        tidied["narrations"] = _each(narrations, _tidied_narration)
    return tidied


def _tidied_narration(narration: dict[str, Any]) -> dict[str, Any]:
    return {**narration, "persona_id": None} if _is_nobody(narration.get("persona_id", "-")) else narration


def _each(items: Any, tidied: Any) -> Any:
    return [tidied(item) if isinstance(item, dict) else item for item in items] if isinstance(items, list) else items


def _is_nobody(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in _NOBODY)


def _as_list(value: Any) -> list[Any]:
    """Return a list, or the one that a text is the JSON of."""
    if isinstance(value, str):
        value = (as_object(f'{{"list": {value}}}') or {}).get("list")
    return value if isinstance(value, list) else []


def _noted(entry: Any) -> Block | None:
    if isinstance(entry, str):
        return Block("", entry.strip()) if entry.strip() else None
    if not isinstance(entry, dict):
        return None
    notes = entry.get("notes")
    told = _told(notes) if isinstance(notes, list) else [str(notes).strip()] if isinstance(notes, str) else []
    text = "\n".join(f"- {note}" for note in told if note)
    return block_of(str(entry.get("heading") or ""), text) if text else None


def _told(notes: Sequence[Any]) -> list[str]:
    return [note.strip() if isinstance(note, str) else json.dumps(note, ensure_ascii=False) for note in notes]
