"""Tell what kind of action a message asks for: reading, making, changing, removing."""

from collections.abc import Mapping

from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.language.vocabulary import (
    READING,
    STRONG_ACTIONS,
    VERBS,
    WEAK_ACTIONS,
    Action,
)
from toolweave.nodes.offline_model.language.words import lemma, words
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

_GONE = r"(?:deleted|removed|dropped|erased|cancell?ed)"
_REMOVING = (
    r"\bget rid of|\bcall(?:ed)? off|\btake\b.* (?:out|off)\b|\bdo away with|^(?:stop|undo)\b"
    r"|\bno longer (?:want|need|sell|offer|have|carry)"
    r"|\b(?:don't|do not) (?:want|need|sell|offer)\b.*\b(?:any ?more|any longer)"
    rf"|\b(?:can|should|must|shall|may) (?:go|be {_GONE})\b"
)
_CHANGING = (
    rf"\b(?:should|shall|must) (?:now )?(?:cost|read|be (?!{_GONE}))\b|\bfrom now on\b|\bhas (?:got )?a new\b"
    r"|\b(?:the|a|his|her|its) new [\w -]+? (?:of|for)\b.* is\b|\bnew [\w-]+ (?:is|:)"
    r"|^make .*\b(?:cost|be)\b|^(?:increase|reduce|raise|lower|bump|cut|replace|correct)\b|^use .+ as\b"
)
_MAKING = (
    r"^(?:a )?new (?!\w+ (?:of|for)\b)|\bput .* (?:into|in|on)\b"
    r"|^(?:we|i) (?:now )?(?:have|sell|offer|want to add)\b.*\b(?:called|named|new)\b"
    r"|^(?:leave|post|submit|file|buy|order|book|reserve|place|register|report|hire|rent|enrol|enroll|sign up)\b"
    r"|\b(?:wants?|like|need) (?:to (?:order|buy)|\d)"
)
_IDIOMS: tuple[tuple[tuple[Action, ...], str], ...] = (
    (("delete",), _REMOVING),
    (("update",), _CHANGING),
    (("create",), _MAKING),
    (("update", "create"), r"^give (?!me\b|us\b)"),
)
_QUESTION = pattern(
    r"^(?:and |so )?(?:what|which|where|when|who|whose|how|is|are|was|were|has|have|had|do|does|did|any"
    r"|until when|since when|at what)\b"
)
_ASKED = pattern(r"\?\s*$")
_WISH = pattern(
    r"^(?:i|we) (?:need|want|would like|'d like)(?: to (?:see|know|have|get))?\b(?!.*\bto (?!see|know|have|get))"
)
_LIKELY, _POSSIBLE = 1.0, 0.6


def wanted_actions(text: str) -> Mapping[Action, float]:
    """Give the actions that a message may ask for, with how surely it does."""
    found: dict[Action, float] = {}
    for actions, form in _IDIOMS:
        if pattern(form).search(text):
            found |= dict.fromkeys(actions, _LIKELY)
    if found:
        return found
    if _QUESTION.match(text):
        return dict.fromkeys(READING, _LIKELY)
    first = next(iter(words(text[:80])), "")
    for word in (first, lemma(first)):
        if word in VERBS:
            found = dict.fromkeys(WEAK_ACTIONS.get(word, ()), _POSSIBLE)
            return found | dict.fromkeys(STRONG_ACTIONS.get(word, ()), _LIKELY)
    for word in words(text[:200])[1:]:
        if word in STRONG_ACTIONS and STRONG_ACTIONS[word][0] not in READING:
            return dict.fromkeys(STRONG_ACTIONS[word], _LIKELY)
    return dict.fromkeys(READING, _LIKELY if _WISH.match(text) or _ASKED.search(text) else _POSSIBLE / 2)


def action_of(tool: ToolSpec) -> Action | None:
    """Give what an operation does: by the verb of its name, or by the first one of its description."""
    if tool.action is not None:
        return tool.action
    first = next(iter(words(tool.name.replace("_", " "))), "")
    for actions in (STRONG_ACTIONS, WEAK_ACTIONS):
        if first in actions:
            return actions[first][0]
    return None
