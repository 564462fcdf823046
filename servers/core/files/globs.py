"""Match paths with globs, in a time that no glob can make long (C-05)."""

import fnmatch
import re
from collections.abc import Sequence


class Glob:
    """`*`, `?` and `[…]` within a name, `**` for any folders; without a slash it is matched with the name alone."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        flags = re.IGNORECASE if ignore_case else 0
        parts = [part for part in pattern.split("/") if part not in {"", "."}]
        self._name_only = len(parts) == 1 and not pattern.endswith("/")
        if pattern.endswith("/"):
            parts.append("**")
        # fnmatch writes expressions that never go back behind a star that has matched.
        self._parts = [None if part == "**" else re.compile(fnmatch.translate(part), flags) for part in parts]

    def matches(self, path: Sequence[str]) -> bool:
        """Tell whether the glob matches a path, given as its parts."""
        names = path[-1:] if self._name_only else path
        name = part = resumed = 0
        after_stars: int | None = None
        while name < len(names):
            expected = self._parts[part] if part < len(self._parts) else _END
            if expected is None:
                part += 1
                after_stars, resumed = part, name
            elif expected.match(names[name]):
                part, name = part + 1, name + 1
            elif after_stars is not None:
                # What stands behind the last ** may begin one folder further down; what is before it stays matched.
                resumed += 1
                part, name = after_stars, resumed
            else:
                return False
        return all(expected is None for expected in self._parts[part:])


_END = re.compile(r"(?!)")
