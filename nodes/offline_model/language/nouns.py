"""Write nouns as regular expressions that take their plural forms."""

import re
from collections.abc import Iterable

from toolweave.nodes.offline_model.language.patterns import NEVER
from toolweave.nodes.offline_model.language.vocabulary import CONTAINERS, VAGUE_NOUNS


def with_plural(noun: str) -> str:
    """Write a noun as a regular expression that takes its plural too, and spaces as hyphens."""
    body = re.escape(noun).replace(r"\-", r"[-\s]?").replace(r"\ ", r"[-\s]")
    if noun.endswith("s"):
        return body
    if noun.endswith("y") and noun[-2:-1] not in "aeou":
        return f"(?:{body}|{body[:-1]}ies)"
    return f"{body}(?:es|s)?" if noun.endswith(("x", "sh", "ch", "o")) else f"{body}s?"


def either_of(nouns: Iterable[str]) -> str:
    """Write nouns as one alternative, longest first; no noun at all matches nothing."""
    listed = sorted(set(nouns), key=lambda noun: (-len(noun), noun))
    return rf"(?:{'|'.join(with_plural(noun) for noun in listed)})" if listed else NEVER


def plurals_only(nouns: str) -> str:
    """Turn an alternative that `either_of` wrote into one of the plural forms alone."""
    return nouns.replace("(?:es|s)?", "(?:es|s)").replace("s?", "s")


VAGUE = either_of(VAGUE_NOUNS)
CONTAINER = either_of(CONTAINERS)
