"""Take identifiers: "product 4", "customer number 17", "order A-1003", "#17"."""

import re

from toolweave.nodes.offline_model.language.literals import HIDDEN
from toolweave.nodes.offline_model.language.nouns import either_of
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.language.vocabulary import noun_family
from toolweave.nodes.offline_model.operations.slots import Slots
from toolweave.nodes.offline_model.tools.parameters import Parameter

_ID_WORDS = frozenset({"id", "ids", "uuid", "identifier", "number", "no", "key", "code", "ref", "reference"})
_NAMING = (
    r"(?:'s)?(?: (?:with|whose|the|is|has))*(?: (?:id|number|no\.?|nr\.?|num|code|key|ref|reference))?(?: is)?"
    r"\s*[#:]?\s*"
)
WHOLE = r"(?<![\w.])\d{1,18}(?![\w]|[.,]\d|-\d)"
_CODE = rf"(?:(?=[\w./-]{{0,40}}\d)[A-Za-z0-9](?:[\w./-]{{0,60}}\w)?|{HIDDEN})"
_LONE_CODE = re.compile(r"(?<![\w-])(?=[\w-]{0,40}\d)(?=[\w-]{0,40}[A-Za-z-])[A-Za-z0-9][\w-]{0,60}\w(?!\w)")
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?")
_NUMBER_OF_ONE = pattern(r"(?:the )?(?:number|id|identifier|key|code) of (?:the|a|an) ")
_SUCH_AS = pattern(r"\b(?:such as|like|for example|e\.g\.) [a-z]{1,5}-?\d")
_HASH = pattern(r"#\s*(?P<id>\d{1,18})\b")


def is_identifier(parameter: Parameter) -> bool:
    """Tell whether a parameter names one thing: `id`, `order_id`, `orderNumber`."""
    if parameter.choices or parameter.kind not in ("integer", "string", "any") or parameter.role == "email":
        return False
    last = parameter.words[-1] if parameter.words else ""
    if parameter.required and (_NUMBER_OF_ONE.match(parameter.description) or _SUCH_AS.search(parameter.description)):
        return True
    # An optional key belongs to the request, not to a thing: an idempotency key.
    return (
        last in _ID_WORDS
        and (len(parameter.words) > 1 or last in ("id", "uuid"))
        and (last != "key" or parameter.required)
    )


def thing_named(parameter: Parameter, noun: str) -> str:
    """Give the alternative of the words for the thing that an identifier names."""
    own = [word for word in parameter.words if word not in _ID_WORDS and len(word) > 1]
    return either_of(noun_family(own[-1])) if own else noun


def id_form(parameter: Parameter, noun: str) -> re.Pattern[str]:
    """Give the expression that finds the identifier in group `id`."""
    value = WHOLE if parameter.kind == "integer" else _CODE
    return pattern(rf"\b(?:{thing_named(parameter, noun)}){_NAMING}(?P<id>{value})")


def take_identifiers(slots: Slots) -> None:
    """Take the identifiers that stand behind the thing they name, then a lone code or "#4" for the one still open."""
    wanted = [one for one in slots.open() if is_identifier(one)]
    for parameter in wanted:
        match = slots.take(id_form(parameter, slots.noun))
        if match and not _DATE.fullmatch(match["id"]):
            slots.arguments[parameter.name] = _value(match["id"], parameter, slots)
    for parameter in wanted:
        if parameter.required and parameter.name not in slots.arguments:
            _take_lone(parameter, slots)
    _take_keys(slots)


def _take_lone(parameter: Parameter, slots: Slots) -> None:
    if parameter.kind == "integer":
        match = slots.take(_HASH)
        if match:
            slots.arguments[parameter.name] = int(match["id"])
        return
    for match in _LONE_CODE.finditer(slots.free):
        if not _DATE.fullmatch(match.group()) and not re.fullmatch(r"\d+[A-Za-z]{1,9}|\d+-[a-z]+", match.group()):
            slots.arguments[parameter.name] = match.group()
            slots.blank(match.start(), match.end())
            return


def _take_keys(slots: Slots) -> None:
    """Take what is stated for a key by its whole name: "idempotency key abc-1"."""
    for parameter in slots.open():
        if parameter.words[-1:] == ("key",) and parameter.kind == "string":
            name = re.escape(" ".join(parameter.words)).replace(r"\ ", r"[\s_-]+")
            match = slots.take(re.compile(rf"\b{name}\b(?:\s+(?:is|of))?\s*[:=]?\s*(?P<id>{_CODE})", re.IGNORECASE))
            if match:
                slots.arguments[parameter.name] = slots.restored(match["id"])


def _value(said: str, parameter: Parameter, slots: Slots) -> int | str:
    return int(said) if parameter.kind == "integer" else slots.restored(said)
