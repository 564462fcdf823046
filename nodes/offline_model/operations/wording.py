"""Take texts: quoted ones, places, the name of a new thing, and what a search is for."""

import re

from toolweave.nodes.offline_model.filling.title_phrase import titles_of
from toolweave.nodes.offline_model.filling.topic import topic_of
from toolweave.nodes.offline_model.language.literals import HIDDEN
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.language.units import UNITS
from toolweave.nodes.offline_model.language.vocabulary import VERBS
from toolweave.nodes.offline_model.language.words import STOP_WORDS, stem, words
from toolweave.nodes.offline_model.operations.announced import CALLED, CAUSE, is_place, open_texts
from toolweave.nodes.offline_model.operations.lexicon import lexicon_of
from toolweave.nodes.offline_model.operations.natures import nature_of
from toolweave.nodes.offline_model.operations.slots import TAKEN, Slots, labels_of
from toolweave.nodes.offline_model.tools.parameters import Parameter

_CAPITALS = r"[A-Z][\w'’.-]*(?: (?:of |the |and )?[A-Z][\w'’-]*)*"
_GENERIC = frozenset(
    stem(word)
    for word in words(
        "cost costs costing price priced worth buy sell sold cheap expensive between below above name word title "
        "called match matching look search find show list browse under over more less most least please kind type "
        "first last top money available offer carry"
    )
)


def take_quoted(slots: Slots) -> None:
    """Take quoted texts: for the parameter named before them, else in order for what is required, then for a search."""
    for parameter in open_texts(slots):
        match = slots.take(
            pattern(
                rf"\b(?:{_announced(parameter)})(?: (?:is|of|as|to|reads?|reading|saying|that says))*"
                rf"\s*[:=,]?\s*(?P<v>{HIDDEN})"
            )
        )
        if match:
            slots.arguments[parameter.name] = slots.restored(match["v"])
    left = slots.literals.in_text(slots.free, "quoted")
    waiting = [one for one in open_texts(slots) if one.required and not is_place(one)] or [
        one for one in open_texts(slots) if one.role in ("query", "title")
    ]
    waiting.sort(key=lambda one: nature_of(one) != "other")
    for parameter, (character, literal) in zip(waiting, left, strict=False):
        slots.arguments[parameter.name] = literal.value
        place = slots.free.index(character)
        slots.blank(place, place + 1)


def take_places(slots: Slots) -> None:
    """Take places by their preposition or their name: "to France", "country Austria", "the Paris store"."""
    for parameter in open_texts(slots):
        if not is_place(parameter) and parameter.role != "language":
            continue
        for form in _place_forms(parameter, slots):
            match = next((one for one in form.finditer(slots.free) if _is_name(one["v"], slots)), None)
            if match:
                slots.arguments[parameter.name] = slots.restored(match["v"]).strip(" .,")
                slots.blank(match.start("v"), match.end("v"))
                slots.pointed.add(parameter.name)
                if not parameter.required:
                    slots.guessed.add(parameter.name)
                break


def take_main_text(slots: Slots) -> None:
    """Take what is left for a name that must be given, or for a search."""
    for parameter in open_texts(slots):
        if parameter.role == "title" and parameter.required:
            found = _new_name(slots)
        elif parameter.role == "query":
            found = _topic(slots)
        else:
            continue
        if found:
            slots.arguments[parameter.name] = found
            slots.guessed.add(parameter.name)
            at = slots.free.find(found)
            if at >= 0:
                slots.blank(at, at + len(found))


def _announced(parameter: Parameter) -> str:
    more = f"|{CALLED}" if parameter.role in ("title", "query") else ""
    more += f"|{CAUSE}" if "reason" in parameter.words else ""
    more += "|saying|that says|reading" if parameter.role in ("text", "description") and parameter.required else ""
    return f"{labels_of(parameter)}{more}"


def _place_forms(parameter: Parameter, slots: Slots) -> list[re.Pattern[str]]:
    value = rf"(?P<v>{HIDDEN}|{_CAPITALS})"
    names = labels_of(parameter, short=3)
    towards = bool({"to", "destination", "goes", "target"} & {*parameter.words, *words(parameter.description)})
    first, others = (
        ("to|into", "in|for|at") if towards or parameter.role == "language" else ("in|at|near|around|of", "for")
    )
    forms = [
        rf"(?i:\b(?:{names}))(?i:\s+(?:is|of|in|called))?\s*[:=]?\s+{value}",
        rf"{value}(?:['’]s)?\s+(?i:{slots.noun}|{names})\b",
        rf"(?i:\b(?:{first}))\s+(?i:the\s+)?{value}",
        rf"(?i:\b(?:{others}))\s+(?i:the\s+)?{value}",
    ]
    if parameter.required:
        forms.append(r"(?i:\b(?:" + first + r")\s+(?P<v>[a-z][a-z-]{2,30}))(?=\W*$|\s+(?!\d)\w)")
    return [re.compile(form) for form in forms]


def _is_name(said: str, slots: Slots) -> bool:
    listed = words(said)
    known = lexicon_of(slots.tool).weights
    return (
        bool(listed)
        and not (set(listed) & STOP_WORDS)
        and not any(stem(word) in known or word in UNITS or word in VERBS for word in listed)
    ) or bool(re.fullmatch(HIDDEN, said))


def _new_name(slots: Slots) -> str:
    """Find the name of a new thing: behind "new product:", by its capitals, or as what is left of the order."""
    stated = pattern(rf"\b(?:{slots.noun})\s*:\s*(?P<v>[^,;\x00]+)").search(slots.free)
    if stated and _is_new(stated["v"], slots):
        return slots.restored(stated["v"]).strip(" .")
    told = pattern(r":\s+(?P<v>[^\x00,;:]+)$").search(slots.free)
    if told and slots.tool.action == "create" and _is_new(told["v"], slots):
        return slots.restored(told["v"]).strip(" .")
    into = pattern(rf"\b(?:to|into) (?:my|the|our|this|that) (?:{slots.noun})\b").search(slots.free)
    if into and not into.group().lower().endswith("s"):
        return ""
    capitals = re.compile(rf"(?<=\S )(?P<v>{_CAPITALS})").search(slots.free)
    if capitals and _is_new(capitals["v"], slots):
        return slots.restored(capitals["v"]).strip(" .,")
    if slots.tool.action != "create":
        return ""
    verb = pattern(rf"^(?:{'|'.join(sorted(VERBS))})\b")
    titles = titles_of(verb.sub("", slots.free.replace(TAKEN, " ")), slots.noun, slots.literals)
    return titles[0] if len(titles) == 1 and _is_new(titles[0], slots) else ""


def _is_new(said: str, slots: Slots) -> bool:
    known = lexicon_of(slots.tool).weights
    return any(stem(word) not in known and word not in STOP_WORDS and word not in UNITS for word in words(said))


def _topic(slots: Slots) -> str:
    """Give what a search is for; words that only speak of the search itself are none."""
    rest = pattern(r"\b(?:priced|costing|that (?:costs?|are|is)|which (?:costs?|are|is)|not|for)\W*(?=[\x00])").sub(
        " ", slots.free
    )
    rest = re.sub(r"[\x00]+", " , ", rest)
    parts = [part for part in re.split(r"\s*[,;]\s*", rest) if part.strip()]
    lexicon = lexicon_of(slots.tool)
    known = lexicon.weights.keys() | _GENERIC
    for part in parts:
        topic = topic_of(part.strip(" ?!."), slots.tool, slots.literals)
        if any(
            stem(word) not in known and word not in STOP_WORDS and word not in UNITS and word not in VERBS
            for word in words(topic)
        ):
            return topic
        if topic and re.search(HIDDEN, part):
            return topic
    return ""
