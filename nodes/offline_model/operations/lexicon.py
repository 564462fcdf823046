"""Give the words that speak for an operation: of its name, its description and its parameters, synonyms included."""

from dataclasses import dataclass
from functools import lru_cache

from toolweave.nodes.offline_model.language.vocabulary import TOOL_VERBS, noun_family
from toolweave.nodes.offline_model.language.words import STOP_WORDS, stem, words
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

_IN_NAME, _VERB, _SYNONYM, _DESCRIBED, _PARAMETER, _TOLD = 1.0, 0.9, 0.9, 0.6, 0.5, 0.3
_LONGEST_DESCRIPTION = 300


@dataclass(frozen=True)
class Lexicon:
    """Stems with how much each of them speaks for the operation; `things` are those of what it acts on."""

    weights: dict[str, float]
    things: frozenset[str]
    verb: str

    @property
    def stems(self) -> frozenset[str]:
        return frozenset(self.weights)

    @property
    def own(self) -> frozenset[str]:
        """Give the stems of its name and of what it acts on."""
        return self.things | {self.verb}


@lru_cache(maxsize=1024)
def lexicon_of(tool: ToolSpec) -> Lexicon:
    """Read the words of one operation."""
    weights: dict[str, float] = {}

    def add(listed: list[str], weight: float) -> None:
        for word in listed:
            if word not in STOP_WORDS and len(word) > 1:
                weights[stem(word)] = max(weight, weights.get(stem(word), 0.0))

    described = words(tool.description[:_LONGEST_DESCRIPTION])
    nouns = [noun for noun in tool.nouns if noun not in TOOL_VERBS or noun != tool.verb]
    for parameter in tool.parameters:
        add(words(parameter.description[:_LONGEST_DESCRIPTION]), _TOLD)
        add([part for word in parameter.words for member in noun_family(word) for part in words(member)], _PARAMETER)
    add([part for word in described for member in noun_family(word) for part in words(member)], _DESCRIBED * _SYNONYM)
    add(described, _DESCRIBED)
    add([part for noun in nouns for member in noun_family(noun) for part in words(member)], _SYNONYM)
    add(nouns, _IN_NAME)
    add([tool.verb] if tool.verb else [], _VERB)
    things = frozenset(stem(part) for noun in nouns for member in noun_family(noun) for part in words(member))
    return Lexicon(weights, things, stem(tool.verb) if tool.verb else "")
