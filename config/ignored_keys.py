"""Point out keys of a configuration file that nothing reads: most are slips of the pen."""

import difflib
from collections.abc import Collection
from typing import Any

from toolweave.config.jsonc import JsoncDocument, JsonPath


def ignored_keys(document: JsoncDocument, path: JsonPath, known: Collection[str], *, owner: str = "") -> list[str]:
    """Write one warning for each key of the object at `path` that is not in `known`; none if there is no object.

    `owner` is put before the key, such as "server 'git': ". No value is shown.
    """
    members = document.value
    for step in path:
        members = _member(members, step)
    unknown = [key for key in members if key not in known] if isinstance(members, dict) else []
    return [
        f"{document.place((*path, key))}: {owner}unknown key {key!r} is ignored{_nearest(key, known)}"
        for key in unknown
    ]


def _member(value: Any, step: str | int) -> Any:
    if isinstance(value, list):
        return value[step] if isinstance(step, int) and step < len(value) else None
    return value.get(step) if isinstance(value, dict) else None


def _nearest(key: str, known: Collection[str]) -> str:
    nearest = difflib.get_close_matches(key, known, n=1, cutoff=0.75)
    return f" (did you mean {nearest[0]!r}?)" if nearest else ""
