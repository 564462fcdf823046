"""Bound what one document may become: shared schemas are copied into every tool that needs them."""

from dataclasses import dataclass, field
from typing import Any

from toolweave.schema import MOST_NODES
from toolweave.servers.registry.openapi.references import Unusable

PARTS_IN_ALL = 500_000
CHARACTERS_IN_ALL = 20_000_000
CHARACTERS_OF_SCHEMA = 200_000
_OTHER_LENGTH = 8


class TooLarge(Unusable):
    """A schema has more parts, text or levels than a tool may have."""


@dataclass
class Budget:
    """What may still be spent: parts and characters of schemas; `whole` is that of the document."""

    parts: int = PARTS_IN_ALL
    characters: int = CHARACTERS_IN_ALL
    whole: "Budget | None" = field(default=None, repr=False)

    def for_schema(self, parts: int = MOST_NODES) -> "Budget":
        """Give the budget of one schema, which is spent from this one."""
        return Budget(parts, CHARACTERS_OF_SCHEMA, self)

    def spend(self, value: Any = None) -> None:
        """Spend what a value takes, with everything in it.

        Raises:
            TooLarge: there is not so much left.
        """
        self._take(*(_size(value, self.parts) if isinstance(value, dict | list) else (1, _length(value))))

    def _take(self, parts: int, characters: int) -> None:
        self.parts -= parts
        self.characters -= characters
        if self.parts >= 0 and self.characters >= 0:
            if self.whole is not None:
                self.whole._take(parts, characters)  # noqa: SLF001
        elif self.whole is None:
            raise TooLarge(
                "the schemas of all operations together are too large; import fewer, by `operations` or `tags`"
            )
        else:
            raise TooLarge(f"its schema has more than {MOST_NODES} parts or {CHARACTERS_OF_SCHEMA} characters")


def _size(value: Any, most: int) -> tuple[int, int]:
    """Count parts and characters; what has more than `most` parts is not looked at to its end."""
    left, parts, characters = [value], 0, 0
    while left and parts + len(left) <= most:
        part = left.pop()
        parts += 1
        characters += _length(part)
        if isinstance(part, dict | list):
            left.extend(part.values() if isinstance(part, dict) else part)
    return parts + len(left), characters


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else _OTHER_LENGTH
