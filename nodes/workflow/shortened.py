"""Write an API's answer as a text of bounded length for a model, cut between the items of lists if it is too long."""

import json
from typing import Any

LONGEST = 40_000
DEEPEST = 12
LONGEST_NAME = 200
_LEAST = 40
"""Room for what says that something was left out."""


def shortened(value: Any, longest: int = LONGEST) -> tuple[str, bool]:
    """Return JSON values as JSON, a text as it is, and whether something was left out."""
    if isinstance(value, str):
        return (value, False) if len(value) <= longest else (_cut(value, longest), True)
    if _length(value, longest) <= longest:
        return _json(value), False
    for room in (longest, longest * 3 // 4, longest // 2):
        text = _json(_fitted(value, room, 0))
        if len(text) <= longest:
            return text, True
    return _cut(text, longest), True


def _fitted(value: Any, room: int, depth: int) -> Any:
    if _length(value, room) <= room:
        return value
    if depth >= DEEPEST or room < _LEAST:
        return "…"
    if isinstance(value, str):
        return _cut(value, room - 2)
    if isinstance(value, list):
        return _fitted_list(value, room - _LEAST, depth)
    return _fitted_object(value, room, depth) if isinstance(value, dict) else "…"


def _fitted_list(items: list[Any], room: int, depth: int) -> list[Any]:
    kept: list[Any] = []
    for item in items:
        length = _length(item, room) + 2
        if length > room:
            break
        kept.append(item)
        room -= length
    if not kept and items:
        kept = [_fitted(items[0], room, depth + 1)]
    return [*kept, f"… {len(items) - len(kept)} more items"] if len(kept) < len(items) else kept


def _fitted_object(value: dict[str, Any], room: int, depth: int) -> dict[str, Any]:
    """Keep small fields whole; large ones share what is left."""
    names = list(value)[: max(room // _LEAST, 1)]
    sizes = {name: _length(name, room) + 4 + _length(value[name], room) for name in names}
    left = share = room - _LEAST
    for place, name in enumerate(sorted(names, key=sizes.__getitem__)):
        share = left // (len(names) - place)
        if sizes[name] > share:
            break
        left -= sizes[name]
    kept: dict[str, Any] = {}
    for name in names:
        whole = sizes[name] <= share
        short = name[:LONGEST_NAME]
        kept[short] = value[name] if whole else _fitted(value[name], share - len(short) - 6, depth + 1)
    return {**kept, "…": f"{len(value) - len(names)} more fields"} if len(names) < len(value) else kept


def _length(value: Any, enough: int) -> int:
    """Give the length of a value as JSON; counting ends once it is more than `enough`."""
    length = 0
    try:
        for piece in json.JSONEncoder(ensure_ascii=False, default=str).iterencode(value):
            length += len(piece)
            if length > enough:
                break
    except (RecursionError, ValueError):
        return enough + 1
    return length


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _cut(text: str, longest: int) -> str:
    notice = f"… ({len(text)} characters in all)"
    return text[: max(longest - len(notice), 0)] + notice
