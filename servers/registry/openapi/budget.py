"""Bound what one document may become: shared schemas are copied into every tool that needs them.

What reading it may cost is bounded by `references.Steps`.
"""

from dataclasses import dataclass, field
from typing import Any

from toolweave.schema import MOST_NODES
from toolweave.servers.registry.openapi.references import OTHER_LENGTH, Steps, Unusable, size

PARTS_IN_ALL = 500_000
CHARACTERS_IN_ALL = 20_000_000
CHARACTERS_OF_SCHEMA = 200_000


class TooLarge(Unusable):
    """A schema has more parts, text or levels than a tool may have."""


@dataclass
class Budget:
    """What may still be spent: parts and characters of schemas; `whole` is that of the document.

    Looking at what is spent takes `steps` of the import.
    """

    parts: int = PARTS_IN_ALL
    characters: int = CHARACTERS_IN_ALL
    whole: "Budget | None" = field(default=None, repr=False)
    steps: Steps = field(default_factory=Steps, repr=False)

    def for_schema(self, steps: Steps, parts: int = MOST_NODES) -> "Budget":
        """Give the budget of one schema, which is spent from this one."""
        return Budget(parts, CHARACTERS_OF_SCHEMA, self, steps)

    def spend(self, value: Any = None) -> None:
        """Spend what a value takes, with everything in it.

        Raises:
            TooLarge: there is not so much left.
        """
        text = len(value) if isinstance(value, str) else OTHER_LENGTH
        parts, characters = size(value, self.parts) if isinstance(value, dict | list) else (1, text)
        self.steps.take(parts)
        self._take(parts, characters)

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
            raise TooLarge(
                f"its schema, with all that it refers to, has more than {MOST_NODES} parts"
                f" or {CHARACTERS_OF_SCHEMA} characters"
            )
