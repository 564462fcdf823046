"""Score how well an operation explains what was said: by its action, its words, what it takes, what it leaves."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolweave.nodes.offline_model.language.nouns import with_plural
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.language.vocabulary import CHANGING, READING, VERBS, Action, noun_family
from toolweave.nodes.offline_model.language.words import STOP_WORDS, stem, stems, words
from toolweave.nodes.offline_model.operations.fill_operation import Filled
from toolweave.nodes.offline_model.operations.identifiers import is_identifier
from toolweave.nodes.offline_model.operations.lexicon import lexicon_of
from toolweave.nodes.offline_model.operations.wanted_action import action_of, wanted_actions
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

_MOST_BY_WORDS = 4.0
_MOST_BY_ARGUMENTS = 3.5
_CONTRADICTION = -3.5
_UNKNOWN_ORDER = -2.0
_DOES_OTHER_THINGS = -2.0
_DEFINITE = r"(?:the|my|this|that|our|an?) (?:[a-z]+ ){0,1}?"
_NUMBERED = pattern(r"^[a-z]+ (?:[a-z]+ )?(?:number |no\.? |#)?(?=[\w-]*\d)[\w-]+")
_OBJECT_FOLLOWS = pattern(r"^[a-z]+ (?:an?|the|this|my|me|us|some|your|our|all|any)\b")


@dataclass(frozen=True)
class Scale:
    """What all operations of a choice are measured with: `rarity` says how few of them a word speaks for."""

    text: str
    spoken: tuple[str, ...]
    actions: Mapping[Action, float]
    rarity: Mapping[str, float]
    known: frozenset[str]
    head: frozenset[str]
    unknown_order: bool


def scale_of(text: str, tools: Sequence[ToolSpec]) -> Scale:
    """Read a text for the operations it may mean."""
    lexicons = [lexicon_of(tool) for tool in tools]
    counts = Counter(word for lexicon in lexicons for word in lexicon.weights)
    rarity = {word: math.log(1 + len(tools) / count) / math.log(1 + len(tools)) for word, count in counts.items()}
    known = frozenset(counts).union(*(lexicon.values for lexicon in lexicons))
    return Scale(
        text,
        tuple(dict.fromkeys(stems(text))),
        wanted_actions(text),
        rarity,
        known,
        _head(text, tools),
        _is_unknown_order(text, known),
    )


def first_score(tool: ToolSpec, scale: Scale) -> float:
    """Score an operation before it is filled: by its words and its action."""
    weights = lexicon_of(tool).weights
    by_words = 2.0 * sum(weights.get(word, 0.0) * scale.rarity.get(word, 0.0) for word in scale.spoken)
    return min(_MOST_BY_WORDS, by_words) + _action_score(action_of(tool), scale.actions)


def whole_score(filled: Filled, scale: Scale) -> float:
    """Score a filled operation."""
    lexicon = lexicon_of(filled.tool)
    score = first_score(filled.tool, scale) + _head_score(filled.tool, scale) + _fill_score(filled)
    if filled.left and _action_score(action_of(filled.tool), scale.actions) < 0:
        score += _DOES_OTHER_THINGS
    if not _is_asked_to_act(filled, scale):
        score += _CONTRADICTION
    others = [
        one for one in scale.spoken if one in scale.known and one not in lexicon.weights and one not in lexicon.values
    ]
    return score - 0.4 * len(others) - 0.2 * min(filled.unknown, 4) + (_UNKNOWN_ORDER if scale.unknown_order else 0.0)


def _is_asked_to_act(filled: Filled, scale: Scale) -> bool:
    """Tell whether an operation with a verb of its own is asked for: by that verb, or by more than what to do it to."""
    tool = filled.tool
    if tool.action is not None or set(scale.spoken) & lexicon_of(tool).verbs:
        return True
    return any(
        not is_identifier(one) for one in tool.parameters if one.name in filled.arguments.keys() - filled.guessed
    )


def is_spoken_of(filled: Filled, scale: Scale) -> bool:
    """Tell whether the words name what the operation acts on, or give it everything that it takes."""
    if _thing_stems(scale.text) & lexicon_of(filled.tool).things:
        return True
    told = filled.arguments.keys() - filled.guessed
    return not filled.missing and bool(told - filled.pointed if filled.unknown else told)


def _thing_stems(text: str) -> set[str]:
    """Give the stems of what a text speaks of; a verb that opens an order is none: "Open the file"."""
    listed = words(text)
    opening = listed[:1] if listed and listed[0] in VERBS and _OBJECT_FOLLOWS.match(text) else []
    return {stem(word) for word in listed[len(opening) :]} - {""}


def _action_score(action: Action | None, wanted: Mapping[Action, float]) -> float:
    """Compare what is asked for with what an operation does; no kind of change passes for another."""
    if action is None or not wanted:
        return 0.0
    if action in wanted:
        return 1.5 * wanted[action]
    sure = max(wanted.values())
    if action in READING and wanted.keys() & READING:
        return 1.2 * sure
    both_known = action in CHANGING | READING and bool(wanted.keys() & (CHANGING | READING))
    return (_CONTRADICTION if both_known and sure >= 1.0 else -2.0) * sure


def _head(text: str, tools: Sequence[ToolSpec]) -> frozenset[str]:
    """Give the nouns, of those that the operations act on, that the text names first."""
    places = {}
    for noun in {noun for tool in tools for noun in tool.nouns}:
        found = [match.start() for member in noun_family(noun) if (match := _mention(member).search(text))]
        if found:
            places[noun] = min(found)
    return frozenset(noun for noun, place in places.items() if place == min(places.values()))


def _mention(noun: str) -> re.Pattern[str]:
    return pattern(rf"(?<![\w-]){with_plural(noun)}(?!\w)")


def _head_score(tool: ToolSpec, scale: Scale) -> float:
    """Count whether the first thing named is the operation's, and whether one or several of them are asked for."""
    score = 0.8 if scale.head & set(tool.nouns) else 0.0
    action = action_of(tool)
    if not tool.nouns or action not in ("list", "search", "get"):
        return score
    family = "|".join(with_plural(member) for member in sorted(noun_family(tool.nouns[-1])))
    several = any(
        match.group().lower().endswith("s") and not scale.text[match.end() :].startswith(("'", "’"))
        for match in pattern(rf"(?<![\w-])(?:{family})(?!\w)").finditer(scale.text)
    )
    if action == "get":
        return score - (0.8 if several and not tool.nouns[-1].endswith("s") and score else 0.0)
    if several:
        return score + (0.8 if score else 0.0)
    one = pattern(rf"\b{_DEFINITE}(?:{family})(?!\w)").search(scale.text)
    return score - (2.0 if one else 0.8 if score else 0.0)


def _fill_score(filled: Filled) -> float:
    given = sum(
        0.3 if one.name in filled.guessed else 1.0 if one.required else 0.8
        for one in filled.tool.parameters
        if one.name in filled.arguments
    )
    lacking = 1.3 * len(filled.missing) + 1.5 * min(filled.left, 3) + 1.0 * min(len(filled.unplaced), 2)
    return min(_MOST_BY_ARGUMENTS, given) + 0.5 * len(filled.wrong) - lacking


def _is_unknown_order(text: str, known: frozenset[str]) -> bool:
    """Tell whether a text opens with a verb that no operation and no rule knows: "Translate the book"."""
    first = next(iter(words(text[:80])), "")
    if not first or first in STOP_WORDS or first in VERBS or stem(first) in known:
        return False
    return bool(_OBJECT_FOLLOWS.match(text) or _NUMBERED.match(text))
