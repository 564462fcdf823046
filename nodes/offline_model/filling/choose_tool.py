"""Score the bound tools for a clause: by what they do, what they are for, and what the clause gives them."""

from collections.abc import Sequence
from datetime import date

from toolweave.nodes.offline_model.filling.addresses import take_addresses, wanted_role
from toolweave.nodes.offline_model.filling.draft import Draft
from toolweave.nodes.offline_model.filling.fill_reading import states_topic, take_filters
from toolweave.nodes.offline_model.filling.numbers import names_numbers
from toolweave.nodes.offline_model.language.cues import Cue
from toolweave.nodes.offline_model.language.dates import find_dates
from toolweave.nodes.offline_model.language.idioms import LIKELY, SURE, WEAK
from toolweave.nodes.offline_model.language.literals import Literals
from toolweave.nodes.offline_model.language.nouns import CONTAINER, VAGUE, either_of
from toolweave.nodes.offline_model.language.patterns import CLAUSE_WINDOW, pattern
from toolweave.nodes.offline_model.language.vocabulary import READING, STRONG_ACTIONS, WEAK_ACTIONS, noun_family
from toolweave.nodes.offline_model.language.words import stem, stems, words
from toolweave.nodes.offline_model.tools.tool_nouns import tool_nouns
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

ENOUGH = 2.0
"""A tool with a lower score is not called: what was said is no request for it."""

_OWN = pattern(r"\b(?:i|i've|i'd|my|we|our)\b|^(?:(?:is there |are there )?any(?:thing)?|where(?:'?s| is| are))\b")
_HAVING = pattern(
    r"(?:what|which|all) (?:i|we)(?:'ve| have)(?: got)?(?! to\b)|do you have"
    r"|(?:do|did|have|had) (?:i|we) (?:already |ever )?(?:have|got|get|write|note|put|add|noted|written|added)(?! to\b)"
    r"|(?:when|where)(?:'s| is| are| was) my|when (?:do|should|must|can) (?:i|we)\b"
)
_POINTS_BACK = pattern(r"\b(?:it|that|this|them|those|these|one)\b")
_IN_MY_LIST = pattern(rf"\b(?:my|the|this|our) (?:[\w-]+ )?{CONTAINER}\b")
_VAGUE = pattern(rf"\b{VAGUE}\b")


def rank_tools(
    tools: Sequence[ToolSpec], cue: Cue, text: str, literals: Literals, today: date
) -> list[tuple[float, ToolSpec]]:
    """List the tools with their scores, best first; equal ones stay in the order in which they were bound."""
    text = text[:CLAUSE_WINDOW]
    scored = [(_score(tool, cue, text, literals, today), tool) for tool in tools]
    return sorted(scored, key=lambda pair: -pair[0])


def _score(tool: ToolSpec, cue: Cue, text: str, literals: Literals, today: date) -> float:
    return (
        _action_score(tool, cue)
        + _noun_score(tool, cue, text)
        + _wording_score(tool, text)
        + _evidence_score(tool, text, literals, today)
        + _aim_score(tool, cue, text, literals, today)
    )


def _action_score(tool: ToolSpec, cue: Cue) -> float:
    """Compare what the clause asks for with what the tool does; never let one kind of change pass for another."""
    if cue.action is None or tool.action is None:
        return 0.0
    if cue.action == tool.action:
        return 3.0 if cue.strength >= LIKELY else 1.0
    if tool.action in (*STRONG_ACTIONS.get(cue.verb, ()), *WEAK_ACTIONS.get(cue.verb, ())):
        return 2.0 if cue.strength >= SURE else 1.0
    if {cue.action, tool.action} <= READING:
        return 1.5 if cue.strength >= LIKELY else 1.0
    if cue.strength >= LIKELY:
        return -3.0
    return -0.5 if cue.manner in ("question", "noun") else -1.5


def _noun_score(tool: ToolSpec, cue: Cue, text: str) -> float:
    matched = sum(
        bool(pattern(rf"(?<![\w-]){either_of(noun_family(noun))}(?![\w-])").search(text)) for noun in tool.nouns
    )
    if matched:
        return 1.5 + matched / len(tool.nouns)
    if cue.action == tool.action or (cue.action in READING and tool.action in READING):
        return 1.0 if _IN_MY_LIST.search(text) else 0.6 if _VAGUE.search(text) else 0.0
    return 0.0


def _wording_score(tool: ToolSpec, text: str) -> float:
    """Count the words that the clause shares with the tool's description and parameters."""
    known = set(stems(tool.description[:400])) | {stem(word) for one in tool.parameters for word in one.words}
    score = min(1.2, 0.4 * len(known & set(stems(text))))
    opening, described = words(text)[:1], words(tool.description[:60])[:1]
    if opening and described and stem(opening[0]) == stem(described[0]):
        score += 1.0
    if opening and stem(opening[0]) in {stem(word) for word in (tool.verb, *tool.nouns)}:
        score += 0.7
    return score


def _evidence_score(tool: ToolSpec, text: str, literals: Literals, today: date) -> float:
    """Count what the clause brings for the tool's parameters: addresses, numbers, an id."""
    score = 0.0
    roles = {parameter.role for parameter in tool.parameters}
    for _, literal in literals.in_text(text, "url", "email", "path"):
        score += 2.0 if wanted_role(literal) in roles else -0.5
    if "path" in roles:
        draft = Draft.of(tool, text, literals, today)
        take_addresses(draft)
        if any(one.required and one.role == "path" and one.name not in draft.arguments for one in tool.parameters):
            score -= 1.0
    numeric = [one for one in tool.parameters if one.required and one.role == "number"]
    if numeric:
        score += 1.0 if names_numbers(text) >= len(numeric) else -1.5
    if tool.key and pattern(rf"(?:\b(?:{tool_nouns(tool)}|number) |#)\d").search(text):
        score += 1.0
    return max(-1.5, min(3.0, score))


def _aim_score(tool: ToolSpec, cue: Cue, text: str, literals: Literals, today: date) -> float:
    """Count what makes a vague request one for this tool: a filter, a topic of one's own, a new value, "it"."""
    if cue.action in READING:
        return _reading_score(tool, text, literals, today) if tool.action in ("list", "search") else 0.0
    if cue.manner != "order":
        return 0.0
    if cue.strength < SURE and tool.action in WEAK_ACTIONS.get(cue.verb, ()):
        if tool.action == "create" and cue.strength == WEAK:
            return 1.0 if tool.parameter("date") and find_dates(text, today) else 0.0
        if tool.action == "update":
            return 0.5 + float(bool(take_filters(Draft.of(tool, text, literals, today))))
    return 1.0 if tool.key and _POINTS_BACK.search(text) else 0.0


def _reading_score(tool: ToolSpec, text: str, literals: Literals, today: date) -> float:
    filters = take_filters(Draft.of(tool, text, literals, today))
    only_dates = all(one.role == "date" for one in tool.parameters if one.name in filters)
    filtered = 0.0 if not filters else 0.6 if only_dates else 1.0
    return filtered + float(bool(_HAVING.search(text)) or (states_topic(text) and bool(_OWN.search(text))))
