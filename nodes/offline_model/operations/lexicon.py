"""Give the words that speak for an operation: of its name, its description and its parameters, synonyms included."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from toolweave.nodes.offline_model.language.vocabulary import noun_family, verb_family
from toolweave.nodes.offline_model.language.words import STOP_WORDS, stem, words
from toolweave.nodes.offline_model.operations.slots import rules_removed
from toolweave.nodes.offline_model.tools.parameters import name_words
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

_IN_NAME, _VERB, _SYNONYM, _VERB_SYNONYM, _DESCRIBED, _OF_PARAMETER, _TOLD = 1.0, 0.9, 0.9, 0.8, 0.6, 0.5, 0.3
_LONGEST_DESCRIPTION = 300
_MOST_VALUES = 50


@dataclass(frozen=True)
class Lexicon:
    """Stems with how much each speaks for the operation; `things` are what it acts on, `values` what it can be told.

    `verbs` are those that ask for it.
    """

    weights: dict[str, float]
    things: frozenset[str]
    values: frozenset[str]
    verb: str
    verbs: frozenset[str]


@lru_cache(maxsize=1024)
def lexicon_of(tool: ToolSpec) -> Lexicon:
    """Read the words of one operation."""
    weights: dict[str, float] = {}

    def add(listed: Iterable[str], weight: float) -> None:
        for word in listed:
            if word not in STOP_WORDS and len(word) > 1:
                weights[stem(word)] = max(weight, weights.get(stem(word), 0.0))

    described = words(rules_removed(tool.description)[:_LONGEST_DESCRIPTION])
    for parameter in tool.parameters:
        add(words(rules_removed(parameter.description)[:_LONGEST_DESCRIPTION]), _TOLD)
        add(_with_synonyms(parameter.words), _OF_PARAMETER)
    add(_with_synonyms(described), _DESCRIBED * _SYNONYM)
    add(described, _DESCRIBED)
    things = _with_synonyms(tool.nouns)
    add(things, _SYNONYM)
    add(tool.nouns, _IN_NAME)
    add([tool.verb], _VERB)
    opening = name_words(tool.name)[:1]
    verbs = [member for verb in (*opening, *described[:1]) for member in verb_family(verb)]
    add(verbs, _VERB_SYNONYM)
    values = (str(choice) for one in tool.parameters for choice in one.choices[:_MOST_VALUES])
    return Lexicon(
        weights,
        frozenset(stem(word) for word in things),
        frozenset(stem(word) for value in values for word in words(value)),
        stem(tool.verb) if tool.verb else "",
        frozenset(stem(verb) for verb in verbs),
    )


def _with_synonyms(listed: Iterable[str]) -> list[str]:
    """Add the synonyms that are single words; of others, a part alone would say too little."""
    return [member for word in listed for member in noun_family(word) if word == member or " " not in member]
