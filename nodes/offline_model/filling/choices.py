"""Find which value of an enumeration, or of a yes-or-no parameter, a request names."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from toolweave.nodes.offline_model.filling.draft import Remainder
from toolweave.nodes.offline_model.filling.named_texts import parameter_words
from toolweave.nodes.offline_model.language.patterns import NEVER, pattern
from toolweave.nodes.offline_model.language.vocabulary import OPPOSITE_VALUES, VALUE_SYNONYMS, VERB_VALUES
from toolweave.nodes.offline_model.tools.parameters import Parameter

Scope = Literal["described", "anywhere"]

# Everyday words that name a value only beside the parameter's own name, or only where every mention counts.
ONLY_BESIDE_NAME = frozenset({"top", "regular", "standard", "average", "ordinary", "no", "yes", "a-z", "z-a"})
ONLY_ANYWHERE = frozenset({"all", "everything", "any", "every", "both", "left", "current", "upcoming", "remaining"})
_NEGATION = pattern(r"(?:\bnot|n't|\bnever|\bno longer|\byet to(?: be)?)(?: \w+){0,3} $")
_STILL_TO_DO = pattern(r"(?:\bto get|\bto be|\bto have) $")
_TO_BE_COMPLETED = pattern(r"\bto $")
_COUNTED = re.compile(r"\s*(?:\w+\s+)?\d")

_VERY = r"(?:very |really |super |quite |pretty |rather |extremely |most |so |kind of |a bit )*"
_COPULA = r"(?:it's |it is |this is |this one is |that's |which is |is )?"
_LINK = r"(?:\s*[:=]\s*| (?:is|of|as|to|at|should be|set to)(?: a)? | )"
_MARKING = r"\b(?:mark(?:ed)?|flag(?:ged)?) (?:it |this |that )?(?:as )?"
_BECOMING = r"(?:\b(?:as|to|to be|being|is|are|been|has been|have been|be|should be|now|already|marked|flagged) )*"


class _Forms(NamedTuple):
    """The places where a value may stand, as expressions with a group `value`."""

    beside_name: re.Pattern[str]
    after_name: re.Pattern[str]
    before_noun: re.Pattern[str]
    at_end: re.Pattern[str]
    at_start: re.Pattern[str]
    anywhere: re.Pattern[str]
    left_behind: re.Pattern[str]


@lru_cache(maxsize=512)
def _forms(surfaces: tuple[str, ...], name: str, noun: str) -> _Forms:
    def said(left_out: frozenset[str]) -> str:
        listed = sorted((one for one in surfaces if one not in left_out), key=len, reverse=True)
        return "|".join(re.escape(one).replace(r"\ ", "[- ]").replace(r"\-", "[- ]?") for one in listed) or NEVER

    plain, strict = said(ONLY_ANYWHERE), said(ONLY_BESIDE_NAME | ONLY_ANYWHERE)
    return _Forms(
        beside_name=pattern(
            rf"(?:\b(?:with|at|of|in|to|as|has|have|having) )?(?:\b(?:a|an|the) )?{_VERY}"
            rf"\b(?P<value>{plain})[-\s]+(?:{name})\b(?: (?:level|one|ones)\b)?"
        ),
        after_name=pattern(
            rf"(?:\b(?:with|at|to|and|set|having|has) )?(?:\b(?:a|an|the|its|it's) )?"
            rf"\b(?:{name})\b(?: level)?{_LINK}{_VERY}(?P<value>{plain})\b"
        ),
        before_noun=pattern(rf"\b(?P<value>{strict})(?=,? (?:[\w-]+ )?{noun}\b)"),
        at_end=pattern(
            rf"(?:[,;(!.–—]\s*|\s-\s|{_MARKING}|\bas )(?:and )?{_COPULA}(?:a |an )?{_VERY}(?P<value>{strict})[\s!.)]*$"
        ),
        at_start=pattern(rf"^(?P<value>{strict})(?:[!:]|,(?= ))\s*"),
        anywhere=pattern(rf"{_BECOMING}(?:a )?{_VERY}\b(?P<value>{said(ONLY_BESIDE_NAME)})\b"),
        left_behind=pattern(rf"\bfrom (?:{plain}) (?=to (?:{plain})\b)"),
    )


def take_choice(parameter: Parameter, rest: Remainder, noun: str, scope: Scope) -> Any:
    """Take the value that the text names for a parameter; None when it names none, or several.

    In scope `described` a value counts only where it describes the thing ("urgent task", "high priority", ", urgent"),
    because elsewhere the word belongs to the thing itself; in `anywhere` every mention counts.
    """
    surfaces = surfaces_of(parameter)
    if not surfaces:
        return None
    forms = _forms(tuple(sorted(surfaces)), parameter_words(parameter), noun)
    rest.take(forms.left_behind)
    for form in forms[:2] if scope == "anywhere" else forms[:5]:
        match = rest.take(form)
        if match:
            return surfaces[_surface(match["value"], surfaces)]
    return _take_mention(forms.anywhere, surfaces, rest) if scope == "anywhere" else None


def _take_mention(form: re.Pattern[str], surfaces: Mapping[str, Any], rest: Remainder) -> Any:
    everything = next((value for value in surfaces.values() if value == "all"), None)
    text, named = rest.text, []
    for match in form.finditer(text):
        surface = _surface(match["value"], surfaces)
        value = surfaces[surface]
        if (everything is not None and value == everything) or (
            surface == "left" and _COUNTED.match(text, match.end())
        ):
            continue
        named.append(_opposite(value, surfaces) if _is_negated(surface, text[: match.start("value")]) else value)
        text = text[: match.start()] + " " * (match.end() - match.start()) + text[match.end() :]
    rest.text = " ".join(text.split())
    distinct = list(dict.fromkeys(value for value in named if value is not None))
    if len(distinct) == 1:
        return distinct[0]
    if distinct or (everything is not None and rest.take(pattern(r"\b(?:all|everything|every)\b"))):
        return everything
    return None


def _is_negated(surface: str, before: str) -> bool:
    return bool(
        _NEGATION.search(before)
        or _STILL_TO_DO.search(before)
        or (surface == "complete" and _TO_BE_COMPLETED.search(before))
    )


def surfaces_of(parameter: Parameter) -> dict[str, Any]:
    """Map every way to say a value of the parameter to that value; the value's own name wins over a synonym."""
    if parameter.kind == "boolean":
        return _flag_surfaces(parameter)
    named = {str(choice).replace("_", " ").lower(): choice for choice in parameter.choices}
    surfaces: dict[str, Any] = {}
    for group in VALUE_SYNONYMS.values():
        member = next((choice for surface, choice in named.items() if surface in group), None)
        if member is not None:
            surfaces |= {surface: member for surface in group if surface not in surfaces}
    return surfaces | named


def _flag_surfaces(parameter: Parameter) -> dict[str, Any]:
    name = parameter.words[-1] if parameter.words else ""
    concept = next((concept for concept, group in VALUE_SYNONYMS.items() if name in group), None)
    if concept is None:
        return {}
    contrary = VALUE_SYNONYMS.get(OPPOSITE_VALUES.get(concept, ""), ())
    return dict.fromkeys(contrary, False) | dict.fromkeys(VALUE_SYNONYMS[concept], True)


def _surface(said: str, surfaces: Mapping[str, Any]) -> str:
    flat = re.sub(r"[-\s]+", " ", said.lower())
    return next((surface for surface in surfaces if surface.replace("-", " ") == flat), next(iter(surfaces)))


def _opposite(value: Any, surfaces: Mapping[str, Any]) -> Any:
    if isinstance(value, bool):
        return not value
    concept = next((concept for concept, group in VALUE_SYNONYMS.items() if str(value).lower() in group), "")
    return surfaces.get(OPPOSITE_VALUES.get(concept, ""))


def value_of_verb(parameter: Parameter, order: str) -> Any:
    """Give the value that the verb of an order implies: "finish it" sets a status to its word for completed."""
    surfaces = surfaces_of(parameter)
    for concept, verbs in VERB_VALUES.items():
        if concept in surfaces and pattern(rf"(?:{verbs})\b").match(order):
            return surfaces[concept]
    return None


def value_meaning(parameter: Parameter, concept: str) -> Any:
    """Give the parameter's own value for a concept such as "completed"; None when it has none."""
    return surfaces_of(parameter).get(concept)
