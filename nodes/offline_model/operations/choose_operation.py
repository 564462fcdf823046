"""Choose the operation that explains best what was said; or tell why none is called."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from toolweave.nodes.offline_model.language.nouns import with_plural
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.language.vocabulary import READING, Action, noun_family
from toolweave.nodes.offline_model.language.words import stems
from toolweave.nodes.offline_model.operations.fill_operation import Filled, fill_operation
from toolweave.nodes.offline_model.operations.lexicon import Lexicon, lexicon_of
from toolweave.nodes.offline_model.operations.said import Said, read_said
from toolweave.nodes.offline_model.operations.wanted_action import action_of, wanted_actions
from toolweave.nodes.offline_model.plain_words import label
from toolweave.nodes.offline_model.tools.parameters import Parameter
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

ENOUGH = 1.0
MOST_FILLED = 12
NOTHING_FITS = "None of the offered tools does what these words ask for."


@dataclass(frozen=True)
class Chosen:
    """The operation with its arguments; or, without one, why."""

    tool: ToolSpec | None = None
    arguments: Mapping[str, Any] | None = None
    reason: str = ""


def choose_operation(text: str, tools: Sequence[ToolSpec], today: date) -> Chosen:
    """Choose among operations and fill the chosen one; nothing is made up."""
    said = read_said(text)
    ranked = rank_operations(said, tools, today)
    if not ranked or ranked[0][0] < ENOUGH:
        return Chosen(reason=NOTHING_FITS)
    best = ranked[0][1]
    if best.complete:
        return Chosen(best.tool, best.arguments)
    return Chosen(reason=_lacking(best))


def rank_operations(said: Said, tools: Sequence[ToolSpec], today: date) -> list[tuple[float, Filled]]:
    """Fill the operations whose words fit, and order them, best first."""
    lexicons = [lexicon_of(tool) for tool in tools]
    rarity = _rarity(lexicons)
    actions = wanted_actions(said.text)
    spoken = list(dict.fromkeys(stems(said.text)))
    first = [
        (_action_score(action_of(tool), actions) + _word_score(spoken, lexicon, rarity), place)
        for place, (tool, lexicon) in enumerate(zip(tools, lexicons, strict=True))
    ]
    likely = sorted(first, key=lambda pair: (-pair[0], pair[1]))[:MOST_FILLED]
    scored = []
    for score, place in likely:
        filled = fill_operation(tools[place], said, today)
        if _is_spoken_of(filled, spoken, lexicons[place]):
            scored.append((score + _head_score(said.text, filled, tools) + _fill_score(filled), filled))
    return sorted(scored, key=lambda pair: -pair[0])


def _rarity(lexicons: Sequence[Lexicon]) -> Mapping[str, float]:
    counts = Counter(word for lexicon in lexicons for word in lexicon.weights)
    total = len(lexicons)
    return {word: math.log(1 + total / count) / math.log(1 + total) for word, count in counts.items()}


def _word_score(spoken: Sequence[str], lexicon: Lexicon, rarity: Mapping[str, float]) -> float:
    return min(4.0, 2.0 * sum(lexicon.weights.get(word, 0.0) * rarity.get(word, 0.0) for word in spoken))


def _action_score(action: Action | None, wanted: Mapping[Action, float]) -> float:
    if action is None:
        return 0.0
    if action in wanted:
        return 1.5 * wanted[action]
    reading = max((sure for one, sure in wanted.items() if one in READING), default=0.0)
    if action in READING and reading:
        return 1.2 * reading
    return -2.0 * max(wanted.values(), default=0.0)


def _head_score(text: str, filled: Filled, tools: Sequence[ToolSpec]) -> float:
    """Count whether the first thing that is named is the one the operation acts on, and in its number."""
    nouns = {noun for tool in tools for noun in tool.nouns}
    places = {}
    for noun in nouns:
        for member in noun_family(noun):
            match = pattern(rf"(?<![\w-]){with_plural(member)}(?!\w)").search(text)
            if match:
                places[noun] = min(match.start(), places.get(noun, (match.start(), ""))[0]), match.group().lower()
    if not places:
        return 0.0
    at = min(place for place, _ in places.values())
    heads = {noun for noun, (place, _) in places.items() if place == at}
    said = next(word for place, word in places.values() if place == at)
    score = 0.8 if heads & set(filled.tool.nouns) else 0.0
    several = said.endswith("s") and not said.endswith("ss") and not text[at + len(said) :].startswith(("'", "’"))
    action = action_of(filled.tool)
    if score and action in ("list", "search"):
        score += 0.8 if several else -0.8
    elif score and action == "get":
        score += -0.8 if several and any(name.endswith("s") for name in filled.tool.nouns) else 0.0
    return score


def _fill_score(filled: Filled) -> float:
    given = sum(
        0.3 if one.name in filled.guessed else 1.0 if one.required else 0.8
        for one in filled.tool.parameters
        if one.name in filled.arguments
    )
    return min(3.5, given) + 0.5 * len(filled.wrong) - 1.3 * len(filled.missing) - 1.5 * min(filled.left, 3)


def _is_spoken_of(filled: Filled, spoken: Sequence[str], lexicon: Lexicon) -> bool:
    """Tell whether the words name what the operation acts on, or give it everything it takes."""
    if set(spoken) & lexicon.things:
        return True
    return not filled.missing and bool(filled.arguments.keys() - filled.guessed)


def _lacking(filled: Filled) -> str:
    tool = filled.tool.name
    if filled.wrong:
        names = _names(filled.wrong)
        return f"{tool} does not take what was given as {names}."
    return f"{tool} needs a value that was not given: {_names(filled.missing)}."


def _names(parameters: Sequence[Parameter]) -> str:
    return " and ".join(label(one.name) for one in parameters)
