"""Decide whether a JSON document contains a pattern: what a metadata or values filter means."""

from functools import lru_cache
from typing import Any

from toolweave.runtime.persistence.json_text import from_json


def contains(document: object, pattern: object) -> bool:
    """Tell whether everything in the pattern is in the document.

    Objects need every key of the pattern, arrays an element for each of the pattern's, anything else equality;
    true is not 1. The same as PostgreSQL's `@>` on jsonb, except that a bare scalar is not found in an array.
    """
    if isinstance(pattern, dict):
        return isinstance(document, dict) and all(
            key in document and contains(document[key], part) for key, part in pattern.items()
        )
    if isinstance(pattern, list):
        return isinstance(document, list) and all(any(contains(item, part) for item in document) for part in pattern)
    return isinstance(document, bool) == isinstance(pattern, bool) and document == pattern


def json_contains(document: str | None, pattern: str) -> bool:
    """Be the SQL function of that name; nothing is in NULL."""
    if document is None:
        return False
    try:
        return contains(from_json(document), _parsed(pattern))
    except RecursionError:
        return False


@lru_cache(maxsize=64)
def _parsed(pattern: str) -> Any:
    return from_json(pattern)
