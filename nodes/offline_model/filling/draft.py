"""Hold a call while it is being filled: the words that no argument has taken yet, and the arguments."""

import re
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from toolweave.nodes.offline_model.language.literals import Literals
from toolweave.nodes.offline_model.tools.parameters import Kind, Parameter, Role
from toolweave.nodes.offline_model.tools.tool_nouns import tool_nouns
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

TEXT_KINDS: tuple[Kind, ...] = ("string", "any")
SPOKEN_ROLES: tuple[Role, ...] = ("title", "description", "text", "query", "other", "place", "language")
"""The roles whose values are words of the request as they stand."""


@dataclass
class Remainder:
    """The words that are still free; `take` gives a match and removes it."""

    text: str
    literals: Literals

    def take(self, form: re.Pattern[str]) -> re.Match[str] | None:
        """Find a form and cut it out of the text."""
        match = form.search(self.text)
        if match:
            self.cut(match.start(), match.end())
        return match

    def cut(self, start: int, end: int) -> None:
        """Remove a piece of the text; what stood around it stays apart."""
        self.text = f"{self.text[:start].rstrip()} {self.text[end:].lstrip()}".strip()


@dataclass
class Draft:
    """A call in the making; `today` is what dates in words are reckoned from."""

    tool: ToolSpec
    rest: Remainder
    today: date
    arguments: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, tool: ToolSpec, text: str, literals: Literals, today: date) -> "Draft":
        """Start with a text and no argument."""
        return cls(tool, Remainder(text, literals), today)

    @property
    def noun(self) -> str:
        """Give the alternative of the words for what the tool acts on."""
        return tool_nouns(self.tool)

    def open_texts(self, *roles: Role) -> list[Parameter]:
        """List the parameters without a value that take words, of the given roles or of all that are spoken."""
        return [
            one
            for one in self.tool.parameters
            if one.name not in self.arguments
            and one.kind in TEXT_KINDS
            and not one.choices
            and one.role in (roles or SPOKEN_ROLES)
        ]

    def fill(self, parameter: Parameter, said: str) -> None:
        """Give a parameter a piece of the text, literals restored."""
        self.arguments[parameter.name] = self.rest.literals.restore(said)
