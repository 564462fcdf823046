"""Follow the .gitignore files below a root, so that a search passes by what a project has put aside (C-05)."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from toolweave.servers.core.files.opening import open_entry
from toolweave.servers.core.files.reading import read_bytes
from toolweave.servers.core.files.rule_set import RuleSet
from toolweave.servers.error_codes import ToolFailed

_NAME = ".gitignore"
_MAX_BYTES = 64 * 1024
_MAX_LINES = 1000
_MAX_STARS = 2


@dataclass(frozen=True, slots=True)
class GitIgnore:
    """The rules of a folder's .gitignore, and those of the folders above it, which it may undo."""

    rules: RuleSet
    depth: int
    above: "GitIgnore | None"

    def ignores(self, parts: Sequence[str], *, is_folder: bool) -> bool:
        """Tell whether the project ignores the last of `parts`, the path from its root."""
        found = self.rules.decision(parts[self.depth :], is_folder=is_folder)
        if found is not None:
            return found
        return self.above is not None and self.above.ignores(parts, is_folder=is_folder)


def with_rules_of(folder: int, device: int, depth: int, above: GitIgnore | None) -> GitIgnore | None:
    """Add the rules of an open folder that is `depth` folders below its root; one without any changes nothing."""
    try:
        descriptor, _ = open_entry(_NAME, folder, device)
    except (OSError, ToolFailed):
        return above
    try:
        text = read_bytes(descriptor, _MAX_BYTES).decode("utf-8-sig", "replace")
    except OSError:
        return above
    finally:
        os.close(descriptor)
    quick = (line.removesuffix("\r") for line in text.split("\n")[:_MAX_LINES] if _is_quick(line))
    return GitIgnore(RuleSet(quick, pass_by_others=True), depth, above)


def _is_quick(line: str) -> bool:
    """Refuse rules that take ever longer with the length of a name: whoever writes a file here must not stop us."""
    names = line.split("/")
    return names.count("**") <= _MAX_STARS and all(name.count("*") <= _MAX_STARS for name in names)
