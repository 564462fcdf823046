"""Ask many ignore rules about one name after another, quickly (C-05).

The rules are read by pathspec, and asked on the way down: where a folder is ignored nobody goes on to what is in it.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from pathspec import GitIgnoreSpec

_ANYWHERE = "^(?:.+/)?"
_FOLDER_MARK = "(?P<ps_d>"
# Choices of characters that Python announces to read otherwise one day.
_UNCLEAR = re.compile(r"\[[!^]?\[|\[.*(?:--|&&|~~|\|\|)")
_Group = tuple[bool, re.Pattern[str] | None, re.Pattern[str] | None]


class RuleSet:
    """Rules as in a .gitignore; of those that match, the last one counts.

    Raises:
        ValueError: a line is no rule, unless such lines are to be passed by, as git does.
    """

    def __init__(self, lines: Iterable[str], *, ignore_case: bool = False, pass_by_others: bool = False) -> None:
        flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
        rules = [rule for line in lines for rule in _rules(line, pass_by=pass_by_others)]
        # One expression for all neighbours that say the same, asked from the last on.
        self._groups: list[_Group] = [
            (include, *_combined([rule for _, rule in group], flags))
            for include, group in groupby(reversed(rules), key=lambda rule: rule[0])
        ]

    def decision(self, parts: Sequence[str], *, is_folder: bool) -> bool | None:
        """Tell whether the rules ignore (True) or want (False) the last of `parts`; None where they say nothing."""
        name = f"{parts[-1]}/" if is_folder else parts[-1]
        path = None
        for include, for_names, for_paths in self._groups:
            if for_names and for_names.match(name):
                return include
            if for_paths:
                path = path or "/".join((*parts[:-1], name))
                if for_paths.search(path):
                    return include
        return None


def _rules(line: str, *, pass_by: bool) -> list[tuple[bool, str]]:
    """Read one line: whether it ignores, and what; nothing of a comment."""
    try:
        if _UNCLEAR.search(line):
            raise ValueError
        patterns = GitIgnoreSpec.from_lines([line]).patterns
    except (ValueError, re.error):
        if pass_by:
            return []
        raise ValueError("a line is no rule") from None
    return [
        (pattern.include, _rule(str(pattern.regex.pattern)))
        for pattern in patterns
        if pattern.include is not None and pattern.regex is not None
    ]


def _rule(expression: str) -> str:
    """Let a rule of pathspec, which is asked about files and means them by the folders above, mean the entry alone."""
    text = expression.replace(_FOLDER_MARK, "(?:")
    for tail, own in (("(?:(?:/)|$)", "/?$"), ("(?:/)", "/$")):
        if text.endswith(tail):
            return text.removesuffix(tail) + own
    # `folder/**` means what is in the folder, not the folder.
    return f"{text}." if text.endswith("/") else text


def _combined(expressions: list[str], flags: int) -> tuple[re.Pattern[str] | None, re.Pattern[str] | None]:
    """Combine the rules that need a name only, without what makes them fit a path, and those that need the path."""
    by_name: list[str] = []
    by_path: list[str] = []
    for expression in expressions:
        body = expression.removeprefix(_ANYWHERE)
        if body != expression and "/" not in body.removesuffix("/?$").removesuffix("/$").replace("[^/]", ""):
            by_name.append(body)
        else:
            by_path.append(expression)
    return _any_of(by_name, flags), _any_of(by_path, flags)


def _any_of(expressions: list[str], flags: int) -> re.Pattern[str] | None:
    return re.compile("|".join(expressions), flags) if expressions else None
