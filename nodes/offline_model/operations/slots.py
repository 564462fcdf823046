"""Hold an operation while it is being filled; what an argument has taken is blanked out, and keeps its length."""

import re
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Any

from toolweave.nodes.offline_model.filling.named_texts import parameter_words
from toolweave.nodes.offline_model.language.literals import Literals
from toolweave.nodes.offline_model.language.nouns import either_of
from toolweave.nodes.offline_model.language.vocabulary import noun_family
from toolweave.nodes.offline_model.operations.said import Said
from toolweave.nodes.offline_model.tools.parameters import Parameter
from toolweave.nodes.offline_model.tools.tool_nouns import tool_nouns
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

TAKEN = "\x00"
_RULES = re.compile(r"\s*\([A-Za-z]+: [^()]*\)\s*$")


@dataclass
class Slots:
    """An operation in the making: `free` is what no argument has taken, `guessed` are those that took the rest.

    To `pointed` ones a preposition alone gave a name: other operations could take it as well.
    """

    tool: ToolSpec
    said: Said
    today: date
    free: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    guessed: set[str] = field(default_factory=set)
    pointed: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.free = self.free or self.said.text

    @property
    def literals(self) -> Literals:
        """Give what is hidden in the text."""
        return self.said.literals

    @property
    def noun(self) -> str:
        """Give the alternative of the words for what the operation acts on."""
        return tool_nouns(self.tool)

    def open(self) -> list[Parameter]:
        """List the parameters that have no value yet, the required ones first."""
        waiting = [one for one in self.tool.parameters if one.name not in self.arguments]
        return sorted(waiting, key=lambda one: not one.required)

    def take(self, form: re.Pattern[str]) -> re.Match[str] | None:
        """Find a form in what is free, and take it."""
        match = form.search(self.free)
        if match:
            self.blank(match.start(), match.end())
        return match

    def blank(self, start: int, end: int) -> None:
        """Take a piece of the text."""
        self.free = self.free[:start] + TAKEN * (end - start) + self.free[end:]

    def restored(self, said: str) -> str:
        """Give a piece of the text with its literals put back."""
        return self.literals.restore(said.replace(TAKEN, " "))


def labels_of(parameter: Parameter, *, short: int = 2) -> str:
    """Give the alternative of the words by which people name a parameter, its synonyms and plurals included."""
    return f"{_spoken(parameter.words, short)}|{parameter_words(parameter)}"


@lru_cache(maxsize=1024)
def _spoken(named: tuple[str, ...], short: int) -> str:
    members = {member for word in named if len(word) >= short for member in noun_family(word)}
    return either_of({" ".join(named), *members})


def rules_removed(description: str) -> str:
    """Give a description without the rules of a schema that are told in words behind it: "(maxLength: 100)"."""
    return _RULES.sub("", description)
