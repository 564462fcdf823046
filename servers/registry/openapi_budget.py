"""Bound what one document may become: shared schemas are copied into every tool that needs them."""

from dataclasses import dataclass, field
from typing import Any

from toolweave.schema import MOST_NODES
from toolweave.servers.registry.openapi_references import Unusable

PARTS_IN_ALL = 1_000_000
CHARACTERS_IN_ALL = 30_000_000
CHARACTERS_OF_SCHEMA = 200_000


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
        left = [value]
        while left:
            part = left.pop()
            self._take(len(part) if isinstance(part, str) else 8)
            if isinstance(part, dict):
                left.extend(part.values())
            elif isinstance(part, list):
                left.extend(part)

    def _take(self, characters: int) -> None:
        self.parts -= 1
        self.characters -= characters
        if self.whole is None and min(self.parts, self.characters) < 0:
            raise TooLarge(
                "the schemas of all operations together are too large; import fewer, by `operations` or `tags`"
            )
        if min(self.parts, self.characters) < 0:
            raise TooLarge(f"its schema has more than {MOST_NODES} parts or {CHARACTERS_OF_SCHEMA} characters")
        if self.whole is not None:
            self.whole._take(characters)  # noqa: SLF001
