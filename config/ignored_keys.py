"""Point out keys of a configuration file that nothing reads: most are slips of the pen."""

import difflib
from collections.abc import Collection

from toolweave.config.jsonc import JsoncDocument, JsonPath


def ignored_keys(document: JsoncDocument, path: JsonPath, known: Collection[str], *, owner: str = "") -> list[str]:
    """Write one warning for each key of the object at `path` that is not in `known`; none if there is no object.

    `owner` is put before the key, such as "server 'git': ". No value is shown.
    """
    members = document.value
    for step in path:
        members = members.get(step) if isinstance(members, dict) else None
    unknown = [key for key in members if key not in known] if isinstance(members, dict) else []
    return [
        f"{document.place((*path, key))}: {owner}unknown key {key!r} is ignored{_nearest(key, known)}"
        for key in unknown
    ]


def _nearest(key: str, known: Collection[str]) -> str:
    nearest = difflib.get_close_matches(key, known, n=1, cutoff=0.75)
    return f" (did you mean {nearest[0]!r}?)" if nearest else ""
