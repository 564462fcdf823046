"""Hold an OpenAPI document to plain JSON values of a bounded size.

Whatever a document was read from, these values can be stored, sent and walked through: keys are text, numbers are
finite, nothing contains itself.
"""

import math
import re
from collections.abc import Mapping
from datetime import date
from typing import Any

from toolweave.errors import DocumentRefused

MOST_BYTES = 10 * 1024 * 1024
MOST_VALUES = 1_000_000
DEEPEST = 100

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1


def plain(value: Any) -> Any:
    """Copy a value as plain JSON values.

    Raises:
        DocumentRefused: it has too many parts, is nested too deeply, or holds what JSON cannot carry.
    """
    return _Copy().of(value, DEEPEST)


class _Copy:
    def __init__(self) -> None:
        self._left = MOST_VALUES

    def of(self, value: Any, levels: int) -> Any:
        self._left -= 1
        if self._left < 0:
            raise DocumentRefused(
                f"The document has more than {MOST_VALUES:,} values, aliases counted as often as used."
            )
        if levels < 0:
            raise DocumentRefused(f"The document is nested more than {DEEPEST} levels deep.")
        match value:
            case str():
                return storable(value)
            case bool() | None:
                return value
            case int() | float():
                return _number(value)
            case Mapping():
                return {_key(key): self.of(inner, levels - 1) for key, inner in value.items()}
            case list() | tuple():
                return [self.of(inner, levels - 1) for inner in value]
            case date():
                return value.isoformat()
        raise DocumentRefused(f"The document holds a value of type {type(value).__name__}, which JSON has not.")


def storable(text: str) -> str:
    """Replace what databases and UTF-8 refuse: NUL and halves of surrogate pairs."""
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def _key(key: Any) -> str:
    match key:
        case str():
            return storable(key)
        case bool() | None:
            pass
        case int() | float():
            return str(key)
    raise DocumentRefused(f"The document has a key of type {type(key).__name__}; keys must be text.")


def _number(value: Any) -> int | float:
    # JSON encoders differ in what they do with larger ones; as floats all of them agree.
    try:
        number: int | float = value if isinstance(value, float) or _SMALLEST <= value <= _LARGEST else float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise DocumentRefused("The document holds a number that is not finite.")
    return number
