"""Extract parameter values from a request: enumerations, dates, tags, numbers, addresses, named texts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import lru_cache
from typing import Any, Literal

from toolweave.nodes.offline_model import english
from toolweave.nodes.offline_model.dates import FoundDate, find_dates
from toolweave.nodes.offline_model.tools import Kind, Parameter, Role, ToolSpec, date_text

Scope = Literal["described", "anywhere"]

TEXT_KINDS: tuple[Kind, ...] = ("string", "any")
_PHRASE_ROLES: tuple[Role, ...] = ("title", "description", "text", "query", "other")


@dataclass
class Draft:
    """A call whose arguments are being filled; `text` has the words that no argument has used yet."""

    tool: ToolSpec
    text: str
    literals: english.Literals
    today: date
    arguments: dict[str, Any] = field(default_factory=dict)

    def unfilled_parameters(self, *roles: Role) -> list[Parameter]:
        """Return the text parameters without a value, of the given roles or of all that accept free text."""
        return [
            one
            for one in self.tool.parameters
            if one.name not in self.arguments
            and not (one is self.tool.key and self.tool.action == "update")
            and one.kind in TEXT_KINDS
            and not one.choices
            and one.role in (roles or _PHRASE_ROLES)
        ]

    def set_text(self, parameter: Parameter, text: str) -> None:
        """Set a parameter to a piece of the text, with its literals restored."""
        self.arguments[parameter.name] = self.literals.restore(text)

    def cut_match(self, form: re.Pattern[str]) -> re.Match[str] | None:
        """Find a form and remove it from the text."""
        match = form.search(self.text)
        if match:
            self.remove(match.start(), match.end())
        return match

    def fill_from(self, parameter: Parameter, *forms: str | re.Pattern[str]) -> None:
        """Set a parameter to the `value` of the first form that matches."""
        for form in forms:
            match = self.cut_match(english.pattern(form) if isinstance(form, str) else form)
            if match:
                self.set_text(parameter, match["value"])
                return

    def remove(self, start: int, end: int) -> None:
        """Remove a piece of the text."""
        self.text = f"{self.text[:start].rstrip()} {self.text[end:].lstrip()}".strip()


def parameter_names(parameter: Parameter) -> str:
    """Return a regular expression for the words that name a parameter."""
    named = [word for part in parameter.words for word in english.words(english.PARAMETER_WORDS.get(part, part))]
    return "|".join(re.escape(word) for word in dict.fromkeys(named)) or english.NEVER_MATCHES


def extract_values(draft: Draft, scope: Scope) -> None:
    """Extract every value that the text states, in an order in which no kind uses words of another.

    In scope `described`, a value of an enumeration counts only where it describes the thing ("urgent task", "high
    priority", ", urgent"), because elsewhere the word is part of the thing; in `anywhere`, every mention counts.
    """
    if draft.tool.action != "update":
        _extract_named_literals(draft)
    _extract_tags(draft)
    _extract_limit(draft)
    _extract_named_texts(draft)
    _extract_addresses(draft)
    _extract_named_ids(draft)
    _extract_dates(draft)
    for parameter in draft.tool.parameters:
        if parameter.name not in draft.arguments and parameter.choices:
            value = extract_choice(parameter, draft, scope)
            if value is not None:
                draft.arguments[parameter.name] = value
    _extract_numbers(draft)


# Enumerations

_NEGATION = english.pattern(r"(?:\bnot|n't|\bnever|\bno longer|\byet to(?: be)?)(?: \w+){0,3} $|\bto (?:get|be|have) $")
_VERY = r"(?:very |really |super |quite |pretty |rather |extremely |most |so |kind of |a bit )*"
_LEAD = r"(?:\b(?:with|at|of|in|to|as|has|have|having|and|set) )?(?:\b(?:a|an|the|its|it's) )?"
_COPULA = r"(?:it's |it is |this is |this one is |that's |which is |is )?"
_LINK = r"(?:\s*[:=]\s*| (?:is|of|as|to|at|should be|set to)(?: a)? | )"
_MARKING = r"\b(?:mark(?:ed)?|flag(?:ged)?) (?:it |this |that )?(?:as )?"
_BECOMING = r"(?:\b(?:as|to|to be|being|is|are|been|has been|have been|be|should be|now|already|marked|flagged) )*"


@lru_cache(maxsize=512)
def _value_forms(surfaces: tuple[str, ...], name: str, noun: str) -> tuple[list[re.Pattern[str]], re.Pattern[str]]:
    """Return the forms in which a value describes a thing, the two with the parameter's name first; and any mention."""
    listed = sorted(surfaces, key=len, reverse=True)
    either = "|".join(re.escape(one).replace(r"\ ", "[- ]").replace(r"\-", "[- ]?") for one in listed)
    value = rf"(?P<value>{either})"
    described = (
        rf"{_LEAD}{_VERY}\b{value}[-\s]+(?:{name})\b(?: (?:level|one|ones)\b)?",
        rf"{_LEAD}\b(?:{name})\b(?: level)?{_LINK}{_VERY}{value}\b",
        rf"\b{value}(?=,? (?:[\w-]+ )?{noun}\b)",
        rf"(?:[,;(!.–—]\s*|\s-\s|{_MARKING}|\bas )(?:and )?{_COPULA}(?:a |an )?{_VERY}{value}[\s!.)]*$",
        rf"^{value}(?:[!:]|,(?= ))\s*",
    )
    mention = rf"{_BECOMING}(?:a )?{_VERY}\b{value}\b"
    return [english.pattern(form) for form in described], english.pattern(mention)


def extract_choice(parameter: Parameter, draft: Draft, scope: Scope) -> Any:
    """Cut and return the value that the text names for a parameter; None if it names none, or several."""
    surfaces = value_synonyms(parameter)
    described, mention = _value_forms(tuple(sorted(surfaces)), parameter_names(parameter), draft.tool.any_noun)
    flag = parameter.kind == "boolean"
    for form in described[:2] if flag or scope == "anywhere" else described:
        match = draft.cut_match(form)
        if match:
            return surfaces[_matching_synonym(match["value"], surfaces)]
    return _extract_mention(mention, surfaces, draft) if scope == "anywhere" and not flag else None


def _extract_mention(form: re.Pattern[str], surfaces: Mapping[str, Any], draft: Draft) -> Any:
    everything = next((value for value in surfaces.values() if value == "all"), None)
    text, named = draft.text, []
    for match in form.finditer(text):
        surface = _matching_synonym(match["value"], surfaces)
        value, before = surfaces[surface], text[: match.start("value")]
        if everything is not None and value == everything:
            continue
        negated = _NEGATION.search(before)
        named.append(_opposite_value(value, surfaces) if negated else value)
        text = text[: match.start()] + " " * (match.end() - match.start()) + text[match.end() :]
    draft.text = " ".join(text.split())
    distinct = list(dict.fromkeys(value for value in named if value is not None))
    return distinct[0] if len(distinct) == 1 else everything if distinct else None


def value_synonyms(parameter: Parameter) -> dict[str, Any]:
    """Return the parameter's values by all their synonyms; a value's own name wins over a synonym."""
    named = {str(choice).replace("_", " ").lower(): choice for choice in parameter.choices}
    surfaces: dict[str, Any] = {}
    for group in english.VALUE_SYNONYMS.values():
        member = next((choice for surface, choice in named.items() if surface in group), None)
        if member is not None:
            surfaces |= {surface: member for surface in group if surface not in surfaces}
    return surfaces | named


def _matching_synonym(text: str, surfaces: Mapping[str, Any]) -> str:
    flat = re.sub(r"[-\s]+", " ", text.lower())
    return next((surface for surface in surfaces if surface.replace("-", " ") == flat), next(iter(surfaces)))


def _opposite_value(value: Any, surfaces: Mapping[str, Any]) -> Any:
    concept = next((concept for concept, group in english.VALUE_SYNONYMS.items() if str(value).lower() in group), "")
    return surfaces.get(english.OPPOSITE_VALUES.get(concept, ""))


def value_from_verb(parameter: Parameter, order: str) -> Any:
    """Return the value that the verb of an order implies: "finish it" sets a status to completed."""
    surfaces = value_synonyms(parameter)
    for concept, verbs in english.VERB_VALUES.items():
        if concept in surfaces and english.pattern(rf"(?:{verbs})\b").match(order):
            return surfaces[concept]
    return None


# Dates

OVERDUE = english.pattern(
    r"\b(?:overdue|past (?:their |its |the )?(?:due|deadline)(?: date)?|missed|late(?! (?:night|evening|fee)))\b"
)
_INCLUSIVE = english.pattern(r"\b(?:on or before|inclusive|including|up to and)\b")
_UP_TO = ("before", "by", "until", "till", "no later than", "not later than")
_FROM = ("after", "since", "from")


def _extract_dates(draft: Draft) -> None:
    """Extract the dates in order; "overdue" limits a listing to dates before today."""
    parameters = draft.unfilled_parameters("date")
    upper = next((one for one in parameters if one.bound == "upper"), None)
    if upper and draft.cut_match(OVERDUE):
        draft.arguments[upper.name] = date_text(draft.today, upper)
        return
    taken = []
    for found in find_dates(draft.text, draft.today):
        chosen = _date_parameters(found, [one for one in parameters if one.name not in draft.arguments])
        draft.arguments |= {one.name: date_text(_day_for(found, one), one) for one in chosen}
        taken += [found] * bool(chosen)
    for found in reversed(taken):
        draft.remove(found.start, found.end)


def _date_parameters(found: FoundDate, parameters: list[Parameter]) -> list[Parameter]:
    bound = "upper" if found.preposition in _UP_TO else "lower" if found.preposition in _FROM else "exact"
    direct = [one for one in parameters if one.bound in (bound, "exact")]
    if direct or bound != "exact":
        return direct[:1]
    if found.day != found.last:
        # A span ("next week") fills both ends of a range.
        return parameters[:2]
    return [one for one in parameters if one.bound == "upper"][:1] or parameters[:1]


def _day_for(found: FoundDate, parameter: Parameter) -> date:
    if parameter.bound != "upper" or found.preposition == "before":
        return found.day
    exclusive = {"before", "until"} & set(parameter.words) and not _INCLUSIVE.search(parameter.description)
    return found.last + timedelta(days=1) if exclusive and found.last < date.max else found.last


# Tags: hashtags, "tagged work", "with the tags travel and work", "work-tagged"

_LABEL_WORDS = frozenset({"tag", "tags", "label", "labels", "category", "categories"})
_NO_LABEL = r"(?!(?:and|to|for|with|on|in|at|by|due|from|of|the|a|an|my|is|are|not)\b)"
_ITEM = rf"(?:{english.HIDDEN}|#?{_NO_LABEL}[\w][\w-]*)"
_ITEMS = rf"(?P<items>{_ITEM}(?:(?:\s*,\s*(?:and )?| and | & ){_ITEM}(?!['’\w]| (?:to|the|a|my)\b))*)"
_HASHTAG = re.compile(r"(?:^|(?<=[\s,(]))#(?P<items>[^\W\d][\w-]{0,60})")
_LABEL = r"(?:tags?|labels?|category|categories|hashtags?)"
_WITH = r"(?:with |having |under |in |add |and )?(?:the |a |an )?"
_LABELLED = r"(?:tagged|labell?ed)"
ITEM_SEPARATOR = re.compile(r"\s*,\s*(?:and\s+)?|\s+and\s+|\s*&\s*")
_LABEL_FORMS = (
    rf"^(?:tag|label)(?P<rest> .+?) (?:with|as) (?:{_LABEL}:? )?{_ITEMS}$",
    rf"^(?:tag|label)(?P<rest> (?:it|this|that)) {_ITEMS}$",
    rf"\b(?P<items>[a-z]\w*)(?:-{_LABELLED}\b| {_LABELLED}(?= {{N}}\b))",
    rf"\b(?:tagged|labell?ed|categori[sz]ed)(?: (?:with|as|under))?(?: {_LABEL})?:?\s+{_ITEMS}",
    rf"\b{_WITH}(?:new )?{_LABEL}(?: (?:of|named|called|is|are|to))?\s*[:=]?\s+(?!{{N}}\b){_ITEMS}",
    rf"\b(?:in|under) (?:the )?{_ITEMS} (?:category|tag|label)\b",
)


def _extract_tags(draft: Draft) -> None:
    """Extract tags: all for a list of strings, the first for a single string."""
    parameter = draft.tool.parameter("labels")
    if parameter is None or parameter.name in draft.arguments or not _LABEL_WORDS & set(parameter.words):
        return
    labels = [match["items"] for match in iter(lambda: draft.cut_match(_HASHTAG), None)]
    for form in _LABEL_FORMS:
        match = english.noun_rule(form, draft.tool.any_noun).search(draft.text)
        if match:
            rest = match.groupdict().get("rest") or ""
            draft.text = f"{draft.text[: match.start()].rstrip()}{rest} {draft.text[match.end() :].lstrip()}".strip()
            labels += [draft.literals.restore(item).lstrip("#") for item in ITEM_SEPARATOR.split(match["items"])]
            break
    labels = list(dict.fromkeys(label for label in labels if label))
    if labels:
        draft.arguments[parameter.name] = labels[0] if parameter.kind == "string" else labels


# Numbers

# "One" is a pronoun more often than a number.
_COUNTING = "|".join(word for word in english.NUMBER_WORDS if word != "one")
_COUNT = rf"(?P<count>\d{{1,15}}|{_COUNTING})\b"
_DIGITS = r"-?\d{1,15}(?:\.\d{1,15})?"
_ANY_NUMBER = english.pattern(rf"(?P<number>(?<![\w.]){_DIGITS}(?![\w]|\.\d)|\b(?:{_COUNTING})\b)")
_NEW_NUMBER = english.pattern(
    rf"(?:\bto|[:=])\s*[€$£]?\s*(?P<number>{_DIGITS})(?!\.?\d)(?: ?(?:€|euros?|eur|dollars?|usd)\b)?"
)
_LIMITING = r"(?:first|top|last|latest|at most|up to|only|maximum|max|limit(?:ed)?(?: of| to)?:?)"
_LIMIT = english.pattern(
    rf"\b(?:(?:the|my|just|next|{_LIMITING}) )*{_LIMITING}[: ]+{_COUNT}(?: results?\b)?"
    rf"|\b{_COUNT.replace('count', 'counted')} (?:first |results?\b|most recent )"
)


def _extract_limit(draft: Draft) -> None:
    """Extract the number of results: "the first 5", "top three", "2 results", "10 tasks"."""
    parameter = draft.tool.parameter("limit")
    if parameter is None or parameter.name in draft.arguments:
        return
    match = draft.cut_match(_LIMIT) or draft.cut_match(
        english.pattern(rf"\b{_COUNT}(?= (?:\w+ )?{draft.tool.any_noun}\b)")
    )
    if match:
        draft.arguments[parameter.name] = _parse_number(next(filter(None, match.groups())), parameter)


def _extract_numbers(draft: Draft) -> None:
    """Extract numbers: those beside a parameter's name first, then others for required parameters in their order.

    Of an update only new values count, not the key: "price of product 2 to 45".
    """
    new = draft.tool.action == "update"
    numeric = [one for one in draft.tool.parameters if one.kind in ("integer", "number") and not one.choices]
    numeric = [one for one in numeric if not (new and one is draft.tool.key)]
    for parameter in (one for one in numeric if one.name not in draft.arguments):
        names = parameter_names(parameter)
        form = rf"\b(?:{names})(?: (?:is|of|to|at|number))*\s*[:=#]?\s*(?P<number>{_DIGITS})(?![\w.])"
        match = draft.cut_match(english.pattern(form)) or draft.cut_match(
            english.pattern(rf"(?<![\w.])(?P<number>{_DIGITS}) (?:{names})\b")
        )
        if match:
            draft.arguments[parameter.name] = _parse_number(match["number"], parameter)
    for parameter in (one for one in numeric if one.required and one.name not in draft.arguments):
        match = draft.cut_match(_NEW_NUMBER if new else _ANY_NUMBER)
        if match:
            draft.arguments[parameter.name] = _parse_number(match["number"], parameter)


def count_numbers(text: str) -> int:
    """Count the numbers in a text."""
    return sum(1 for _ in _ANY_NUMBER.finditer(text))


def _parse_number(text: str, parameter: Parameter) -> int | float:
    number: int | float = english.NUMBER_WORDS.get(text.lower(), 0) or float(text)
    return int(number) if parameter.kind == "integer" or number == int(number) else number


# Addresses and texts

_ARTICLE = r"(?:\b(?:with|and|the|a|an|its|has|having|plus) )*"
_CAPITALS = r"[^\W\d_][\w.'’/-]*(?: [A-Z][\w.'’/-]*)*"
# Case matters: "in New York in fahrenheit" ends where the capitals end.
_NAME = rf"\b(?i:to|into|for|by|with|from|in|at)\s+(?i:(?:{{P}})\s+)?(?P<value>{english.HIDDEN}|(?=[A-Z]){_CAPITALS})"


def literal_role(literal_kind: str, value: str) -> Role:
    """Return the role of a URL, an e-mail address or a path; a path with a star is a search pattern."""
    if literal_kind == "path" and "*" in value:
        return "query"
    return "url" if literal_kind == "url" else "email" if literal_kind == "email" else "path"


def _extract_addresses(draft: Draft) -> None:
    """Extract URLs, e-mail addresses, paths and patterns in order, each for the first parameter of its role."""
    for character, literal in draft.literals.in_text(draft.text, "url", "email", "path"):
        for parameter in draft.tool.parameters:
            fits = parameter.role == literal_role(literal.kind, literal.value) and parameter.kind in TEXT_KINDS
            if fits and parameter.name not in draft.arguments:
                draft.arguments[parameter.name] = literal.value
                place = draft.text.index(character)
                draft.remove(place, place + 1)
                break


def _extract_named_literals(draft: Draft) -> None:
    """Extract quoted texts behind a parameter's name: `with subject "Lunch"`."""
    for parameter in draft.unfilled_parameters():
        names = parameter_names(parameter)
        if parameter.role == "title":
            names += "|called|named|titled|entitled|saying"
        reading = r"(?: (?:is|of|as|to|called|reading))?\s*[:=]?\s*"
        draft.fill_from(parameter, rf"{_ARTICLE}\b(?:{names}){reading}(?P<value>{english.HIDDEN})")


def _extract_named_texts(draft: Draft) -> None:
    """Extract texts behind a parameter's name: `priority=high`, `description: check first`, `with description …`."""
    for parameter in draft.unfilled_parameters("text", "description") if draft.tool.action == "send" else ():
        draft.fill_from(parameter, r"\b(?:saying|that says)(?: that)?:? (?P<value>.+)$")
    for parameter in draft.unfilled_parameters():
        names, assigned = parameter_names(parameter), re.escape(parameter.name)
        forms = [
            rf"(?:\b(?:with|and) )?(?:\bthe )?\b{assigned}\s*=\s*(?P<value>[^,;=]+?)(?=\s*(?:,|;|$| and [\w-]+\s*=))"
        ]
        if parameter is not draft.tool.main:
            forms.append(
                rf"(?:[,;.]?\s*\b(?:and |with )?(?:the |a |an )?\b(?:{names})\s*[:=]"
                rf"|[,;]?\s*\b(?:and )?with (?:the |a |an )?(?:{names})\b(?: (?:of|that says|saying))?)"
                r"\s*(?P<value>[^,;]+)$"
            )
        draft.fill_from(parameter, *forms)


def _extract_named_ids(draft: Draft) -> None:
    """Extract a word with a digit behind the name of a required identifier: `order A-17`."""
    for parameter in draft.unfilled_parameters("id"):
        names = rf"\b(?:{parameter_names(parameter)})(?: (?:id|number|no\.?|is|named|called))*\s*[:=#]?\s+"
        if parameter.required:
            draft.fill_from(parameter, rf"{names}(?P<value>{english.HIDDEN}|(?=[\w.-]*\d)\w[\w.-]*\b)")


def extract_names(draft: Draft) -> None:
    """Extract names by the preposition before them: "in Tokyo", "to French", "by Jules Verne"."""
    for parameter in sorted(draft.unfilled_parameters("other"), key=lambda one: not one.required):
        draft.fill_from(parameter, re.compile(_NAME.replace("{P}", parameter_names(parameter))))
