"""Take the values of enumerations and flags; two parameters with the same values are told apart by direction."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolweave.nodes.offline_model.filling.choices import ONLY_ANYWHERE, ONLY_BESIDE_NAME, surfaces_of
from toolweave.nodes.offline_model.filling.values import mentioned_flag
from toolweave.nodes.offline_model.language.nouns import either_of
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.language.words import stem
from toolweave.nodes.offline_model.operations.slots import Slots, labels_of
from toolweave.nodes.offline_model.tools.parameters import Parameter

_SOURCE = frozenset({"from", "source", "base", "origin", "src", "old"})
_TARGET = frozenset({"to", "target", "into", "destination", "dest", "quote", "new"})
_TOWARDS = pattern(r"\b(?:to|into|in|for|as|get)(?: (?:a|an|the|my|some))?\W*$")
_OUT_OF = pattern(r"\b(?:from|out of)(?: (?:a|an|the|my))?\W*$|\d\s*$")
_NOT = pattern(r"(?:\bnot|n't|\bnever|\bno longer)(?: \w+){0,2} $")
_AFTER_VERB = pattern(r"^ (?:a|an|the|me|us|my|some)\b")
_NOT_SHORT = re.compile(r"\b(wo|do|does|ca|is|are)nt\b")
_SHORTEST = 2


@dataclass(frozen=True)
class Mention:
    """A value that the text names, and where."""

    value: Any
    start: int
    end: int


def take_alternatives(slots: Slots) -> None:
    """Take what the text names for enumerations and flags."""
    wanted = [one for one in slots.open() if one.choices or one.kind == "boolean"]
    while wanted:
        same = [one for one in wanted if one.choices == wanted[0].choices and one.kind == wanted[0].kind]
        wanted = [one for one in wanted if one not in same]
        if same[0].kind == "boolean":
            for parameter in same:
                _take_flag(parameter, slots)
        elif len(same) == 2:
            _take_ends(same, slots)
        else:
            for parameter in same:
                _take_one(parameter, slots)


def _take_one(parameter: Parameter, slots: Slots) -> None:
    found = _mentions(parameter, slots)
    named = [one for one in found if _beside_name(one, parameter, slots.free)]
    for mention in (named or found)[:1]:
        slots.arguments[parameter.name] = mention.value
        _blank(mention, parameter, slots)


def _blank(mention: Mention, parameter: Parameter, slots: Slots) -> None:
    """Take the value with the name of its parameter beside it: "in the furniture category"."""
    names = labels_of(parameter)
    before = pattern(
        rf"(?:\b(?:in|of|under|with|by|to|for|as) )?(?:the )?(?:\b(?:{names})(?: (?:is|of|as|to))?\s*[:=]?\s*)?$"
    ).search(slots.free[: mention.start])
    after = pattern(rf"^[\s-]*(?:{names})\b").search(slots.free[mention.end :])
    start = before.start() if before else mention.start
    slots.blank(start, mention.end + (after.end() if after else 0))


def _take_flag(parameter: Parameter, slots: Slots) -> None:
    found = _mentions(parameter, slots)
    value = found[0].value if found else mentioned_flag(parameter, slots.free)
    if value is not None:
        slots.arguments[parameter.name] = value


def _take_ends(pair: Sequence[Parameter], slots: Slots) -> None:
    """Give the two ends of a conversion their values: "from USD to EUR", "how many yen for 99 francs"."""
    source = next((one for one in pair if set(one.words) & _SOURCE), pair[0])
    target = next(one for one in pair if one is not source)
    if set(source.words) & _TARGET and not set(source.words) & _SOURCE:
        source, target = target, source
    found = _mentions(source, slots)[:2]
    ends: dict[str, Mention] = {}
    for mention in found:
        ends.setdefault(_end_of(mention, slots.free), mention)
    if len(ends) < len(found):
        # One end says what the other one must be; with no hint at all the order does.
        sure = next((end for end in ("source", "target") if end in ends), None)
        if sure:
            rest = next(one for one in found if one is not ends[sure])
            ends = {sure: ends[sure], "target" if sure == "source" else "source": rest}
        else:
            ends = dict(zip(("source", "target"), found, strict=False))
    elif "unclear" in ends:
        free = [end for end in ("source", "target") if end not in ends]
        ends[free[0]] = ends.pop("unclear")
    for end, parameter in (("source", source), ("target", target)):
        if end in ends:
            slots.arguments[parameter.name] = ends[end].value
            slots.blank(ends[end].start, ends[end].end)


def _end_of(mention: Mention, text: str) -> str:
    before, after = text[: mention.start], text[mention.end :]
    if _OUT_OF.search(before) or re.match(r"\s*\d", after):
        return "source"
    return "target" if _TOWARDS.search(before) else "unclear"


def _mentions(parameter: Parameter, slots: Slots) -> list[Mention]:
    surfaces = {
        said.lower(): value
        for said, value in surfaces_of(parameter).items()
        if len(said) >= _SHORTEST or not said.isalnum()
    }
    surfaces |= {_NOT_SHORT.sub(r"\1n't", said): value for said, value in surfaces.items() if _NOT_SHORT.search(said)}
    own = {str(choice).lower() for choice in parameter.choices}
    plain = [said for said in surfaces if said in own or said not in ONLY_BESIDE_NAME | ONLY_ANYWHERE]
    words = either_of(
        [said for said in plain if said[0].isalnum()] + [stem_free for said in plain for stem_free in _singular(said)]
    )
    signs = "|".join(re.escape(said) for said in plain if not said[0].isalnum())
    form = pattern(rf"(?<![\w-])(?:{words})(?![\w])" + (f"|{signs}" if signs else ""))
    found = []
    for match in form.finditer(slots.free):
        value = surfaces.get(match.group().lower().replace("-", " "), _by_stem(match.group(), surfaces))
        if value is None or _NOT.search(slots.free[: match.start()]) or _is_verb(match, slots.free):
            continue
        found.append(Mention(value, match.start(), match.end()))
    return found


def _singular(said: str) -> list[str]:
    return [said[:-1]] if said.endswith("s") and len(said) > 3 and not said.endswith("ss") else []


def _by_stem(said: str, surfaces: dict[str, Any]) -> Any:
    wanted = stem(said)
    return next((value for surface, value in surfaces.items() if stem(surface) == wanted), None)


def _is_verb(match: re.Match[str], text: str) -> bool:
    """Tell whether a word opens the message as a verb: "Book a flight"."""
    return not match.start() and bool(_AFTER_VERB.match(text[match.end() :]))


def _beside_name(mention: Mention, parameter: Parameter, text: str) -> bool:
    names = labels_of(parameter)
    return bool(
        pattern(rf"\b(?:{names})(?: (?:is|of|as|to))?\s*[:=]?\s*$").search(text[: mention.start])
        or pattern(rf"^[\s-]+(?:{names})\b").search(text[mention.end :])
    )
