"""Read a site's robots.txt as RFC 9309 has it: the longest rule wins, `*` and `$` mean something."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

# The rest of a larger file is ignored (RFC 9309, 2.5).
MOST_CHARACTERS = 512 * 1024
_LINE = re.compile(r"[ \t]*([A-Za-z-]+)[ \t]*:[ \t]*([^#]*)")
_ESCAPED = re.compile(r"%([0-9a-fA-F]{2})")
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


@dataclass(slots=True)
class _Group:
    agents: list[str] = field(default_factory=list)
    # Pattern, and whether it allows.
    rules: list[tuple[str, bool]] = field(default_factory=list)


def may_fetch(robots: str, path: str, agent: str) -> bool:
    """Say whether a site's rules let an agent fetch a path, its query included.

    Args:
        robots: the text of robots.txt.
        path: as it is requested, percent-encoded.
        agent: the product name alone, such as "toolweave".
    """
    groups = list(_groups(robots[:MOST_CHARACTERS].removeprefix("\ufeff")))
    own = [group for group in groups if agent.lower() in group.agents]
    asked = _normal(path)
    best = (-1, True)
    for group in own or [group for group in groups if "*" in group.agents]:
        for pattern, allows in group.rules:
            # Of two rules as long as each other, the one that allows wins.
            if (len(pattern), allows) > best and _matches(pattern, asked):
                best = (len(pattern), allows)
    return best[1]


def _groups(robots: str) -> Iterator[_Group]:
    group = _Group()
    for line in robots.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        name, value = found[1].lower(), found[2].strip()
        if name == "user-agent":
            if group.rules:
                yield group
                group = _Group()
            # Versions and comments behind the product name do not count.
            group.agents.append(re.split(r"[\s/]", value.lower(), maxsplit=1)[0])
        elif name in ("allow", "disallow") and group.agents and value:
            group.rules.append((_normal(value), name == "allow"))
    yield group


def _normal(path: str) -> str:
    """Write a path's characters in one way, so that spellings of the same path compare as equal."""
    encoded = "".join(
        character if character.isascii() else "".join(f"%{octet:02X}" for octet in character.encode(errors="replace"))
        for character in path
    )
    return _ESCAPED.sub(_decoded, encoded)


def _decoded(found: re.Match[str]) -> str:
    character = chr(int(found[1], 16))
    return character if character in _PLAIN else found[0].upper()


def _matches(pattern: str, path: str) -> bool:
    """Compare without a regular expression: a stranger's pattern could make one take for ever."""
    at_end = pattern.endswith("$")
    first, *others = pattern.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    if not others:
        return not at_end or path == first
    place = len(first)
    last = others.pop()
    for part in others:
        found = path.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return path.endswith(last) and len(path) - len(last) >= place if at_end else path.find(last, place) >= 0
