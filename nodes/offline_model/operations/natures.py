"""Tell what a text parameter holds, by its name and description: a person, a place, an end of a way, a time of day."""

from functools import lru_cache
from typing import Literal

from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.language.words import words
from toolweave.nodes.offline_model.operations.identifiers import is_identifier
from toolweave.nodes.offline_model.operations.slots import rules_removed
from toolweave.nodes.offline_model.tools.parameters import Parameter

Nature = Literal["maker", "person", "origin", "destination", "place", "clock", "named", "other"]
"""A maker is a person whom something is by, other persons are those whom it is for; `named` has a name of its own."""

_MAKERS = frozenset(
    words(
        "author writer creator composer artist director producer performer singer painter designer architect inventor "
        "illustrator photographer translator editor publisher manufacturer maker brand band reporter sender poet"
    )
)
_PERSONS = frozenset(
    words(
        "person people reader assignee owner organizer organiser guest customer client user member recipient patient "
        "doctor physician nurse student pupil teacher employee manager borrower lender host speaker attendee "
        "participant driver passenger tenant landlord colleague reviewer approver buyer seller visitor lawyer agent "
        "contact supervisor trainer coach applicant candidate supplier requester responsible holder leader player "
        "subscriber caller payer payee beneficiary resident citizen technician chef waiter staff"
    )
)
_SERVING = frozenset(
    words("doctor physician nurse teacher trainer coach lawyer agent technician manager host driver supervisor speaker")
)
_WHO = frozenset({"who", "whom", "whose", "somebody", "someone"})
_PLACES = frozenset(
    words(
        "city country town village region place location destination origin address area district airport station "
        "street venue site state county where room hall stop harbour harbor port"
    )
)
_ORIGIN = frozenset(words("from origin source departure pickup start begins starts departs leaves leaving"))
_DESTINATION = frozenset(words("to destination target arrival goes ends arrives dropoff towards"))
_CLOCK = frozenset(words("time clock hour hh mm"))
_DESCRIBED_AT_LENGTH = ("query", "description", "text", "url", "email", "labels", "path")
_FIRST_WORDS = 4
_THIS_PERSON = pattern(rf"\b(?:this|that|of the|by the|for the) (?:{'|'.join(sorted(_PERSONS))})\b")


@lru_cache(maxsize=1024)
def _nature(named: tuple[str, ...], description: str, role: str, stated: str) -> Nature:
    own, told = set(named), words(rules_removed(description))
    first = set(told[:_FIRST_WORDS])
    if stated == "time" or (not stated and (own & _CLOCK or {"hh", "mm"} <= set(told))):
        return "clock"
    if not own & _PLACES and own & (_MAKERS | _PERSONS):
        return "maker" if own & _MAKERS else "person"
    placed = bool(own & _PLACES or first & _PLACES) and not own & {"zone", "timezone", "email", "mail"}
    if role == "title":
        placed = told[:2] == ["name", "of"] and bool(first & _PLACES)
    if placed and (role in ("place", "other", "path", "title") or named == ("to",)):
        return _end_of_way(own, set(told))
    if role in _DESCRIBED_AT_LENGTH:
        return "other"
    if (
        first & _WHO
        or (told[:2] == ["name", "of"] and first & (_PERSONS | _MAKERS))
        or _THIS_PERSON.search(description)
    ):
        return "maker" if first & _MAKERS else "person"
    if role == "place":
        return "place"
    return "named" if role == "other" and told[:2] == ["name", "of"] else "other"


def _end_of_way(own: set[str], told: set[str]) -> Nature:
    for here in (own, told - {"to", "from"}):
        origin, destination = here & _ORIGIN, here & _DESTINATION
        if bool(origin) != bool(destination):
            return "origin" if origin else "destination"
    return "place"


def serves(parameter: Parameter) -> bool:
    """Tell whether a person is one whom others go to, as to a doctor."""
    return bool(set(parameter.words) & _SERVING)


def nature_of(parameter: Parameter) -> Nature:
    """Tell what a text parameter holds; "other" is everything that prepositions do not point to."""
    if parameter.kind not in ("string", "any") or parameter.choices or is_identifier(parameter):
        return "other"
    if parameter.role in ("date", "cursor"):
        return "other"
    return _nature(parameter.words, parameter.description, parameter.role, str(parameter.schema.get("format") or ""))
