"""Make ids of names: slugs that are free, also where letters are not told apart by case; and name ids in sentences."""

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence

from toolweave.tool_config import RESERVED_IDS

LONGEST_ID = 64

_OTHERS = re.compile(r"[^a-z0-9]+")


def slug(name: str) -> str:
    """Make an id of a name in any script; one whose letters no id can hold gets its hash."""
    letters = unicodedata.normalize("NFKD", name).casefold().encode("ascii", "ignore").decode()
    made = _OTHERS.sub("_", letters)[:LONGEST_ID].strip("_")
    return made or f"tool_{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:12]}"


def wishes(tool_id: str) -> Iterator[str]:
    """Give an id and then numbered ones, without end: get_user, get_user-2, get_user-3 …; no reserved one."""
    if tool_id.lower() not in RESERVED_IDS:
        yield tool_id
    number = 2
    while True:
        ending = f"-{number}"
        yield tool_id[: LONGEST_ID - len(ending)] + ending
        number += 1


def folded(tool_id: str) -> str:
    """Give the form that no two tools may have in common: `Get_User` and `get_user` would be taken for each other."""
    return tool_id.lower()


def listed(tool_ids: Sequence[str], most: int = 20) -> str:
    """Name the first `most` ids in a sentence, and say how many more there are."""
    rest = len(tool_ids) - most
    return ", ".join(tool_ids[:most]) + (f" and {rest} more" if rest > 0 else "")
