"""Point out keys of a configuration file that nothing reads: most are slips of the pen."""

import difflib
import re
from collections.abc import Collection
from typing import Any

from toolweave.config.jsonc import JsoncDocument, JsonPath

# A file that is none of ours may hold anything where keys are expected, such as passwords: only names are shown.
_NAME = re.compile(r"[\w$.-]{1,64}")


def ignored_keys(document: JsoncDocument, path: JsonPath, known: Collection[str], *, owner: str = "") -> list[str]:
    """Write one warning for each key of the object at `path` that is not in `known`; none if there is no object.

    `owner` is put before the key, such as "server 'git': ". No value is shown.
    """
    members = document.value
    for step in path:
        members = _member(members, step)
    unknown = [key for key in members if key not in known] if isinstance(members, dict) else []
    return [
        f"{document.place((*path, key))}: {owner}unknown key {_shown(key)}is ignored{_nearest(key, known)}"
        for key in unknown
    ]


def _shown(key: str) -> str:
    return f"{key!r} " if _NAME.fullmatch(key) else ""


def _member(value: Any, step: str | int) -> Any:
    if isinstance(value, list):
        return value[step] if isinstance(step, int) and step < len(value) else None
    return value.get(step) if isinstance(value, dict) else None


def _nearest(key: str, known: Collection[str]) -> str:
    nearest = difflib.get_close_matches(key, known, n=1, cutoff=0.75)
    return f" (did you mean {nearest[0]!r}?)" if nearest else ""
