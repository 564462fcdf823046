"""Reduce what follows a verb of creation to the thing itself: "a task to buy milk on my list" to "Buy milk"."""

import re

from toolweave.nodes.offline_model.language.clauses import ITEM_MARK
from toolweave.nodes.offline_model.language.idioms import OBLIGATION
from toolweave.nodes.offline_model.language.literals import HIDDEN, Literals
from toolweave.nodes.offline_model.language.nouns import CONTAINER, plurals_only
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.language.politeness import without_courteous_tail, without_courtesy

_COUNT = r"(?:\d{1,2}|two|three|four|five|six|some|several|both|these|the following)"
_NAMING = (
    r"(?:called|named|titled|entitled|labell?ed|saying|that says|which says|with the (?:title|name|text)"
    r"|with (?:title|name|text)|whose (?:title|name) is|(?:title|name)d?\s*[:=])"
)
_ABOUT = r"(?:for|about|regarding|concerning|related to|on)"
_FILED = r"(?:to|on|in|into) (?:my|the) (?:[\w-]+ )?(?:{L})"
# Only the end of a text can say where the thing goes; searching a long one from the start would be slow for nothing.
_FILING_WINDOW = 200

_INTRODUCED = (
    rf"(?:(?:me|us|up|down|in) )?(?:(?:a|an|the|another|one more|one|my|new|this|{_COUNT}) )*"
    r"(?P<modifiers>(?:[\w-]+,? ){0,3}?)(?:{N})(?![\w-])(?: (?:item|entry|please|for me)\b)*"
    rf"(?: {_FILED})?\s*"
    rf"(?P<link>[:,–—-]|{_NAMING}|(?:that|so that) |to (?:do )?(?=\S)|{_ABOUT}\b|of\b|$|(?={HIDDEN})|(?=\S))\s*"
)
_FILED_FIRST = (
    rf"^(?:(?:me|us) )?(?:(?:this|these|the following)(?: (?:things|items))?)?(?: ?{_FILED})?\s*[:-]\s*"
    r"|^one (?:to|for|about) "
)
_WISHED = pattern(
    rf"^(?:that |to |about |of |in order )?(?:{OBLIGATION} (?:to |remember to )?|to (?=\w)|about (?:the )?)"
)
_DANGLING = pattern(r"(?:[\s,;:–—-]|\b(?:by|on|for|due|and|with|at|before|until|as|is|it's)$)+$")
_SEVERAL = (
    rf"(?:(?:me|my|a|the|{_COUNT}|few|new|couple of|following|more) )*(?:{{P}})"
    r"\s*(?:[:–—-]|to\b|for\b|called\b|named\b)?\s*(?P<items>.+)$"
    rf"|(?:these|the following)(?: (?:\w+ )?(?:things|items|{{N}}))?(?: {_FILED})?\s*[:–—-]\s*(?P<listed>.+)$"
)
_ONLY_LINKS = r"(?:[\s,;:&]|\b(?:and|also|the|these|both|{N})\b)*"
_SEPARATOR = re.compile(r"\s*[,;]\s*(?:and\s+)?|\s+and\s+(?:to\s+)?")


def titles_of(body: str, noun: str, literals: Literals) -> list[str]:
    """Give the phrases of a request for several things; one phrase when it asks for one, none when it names none."""
    several = _form(_SEVERAL, noun).match(body.strip())
    quoted = literals.in_text(body, "quoted")
    around = re.sub(HIDDEN, " ", _without_filing(body, noun))
    if len(quoted) > 1 and _form(_ONLY_LINKS, noun).fullmatch(around):
        return [literal.value for _, literal in quoted]
    if ITEM_MARK in body:
        phrases = body.split(ITEM_MARK)[1:]
    elif several:
        phrases = _SEPARATOR.split(several["items"] or several["listed"])
    else:
        phrases = [body]
    return [title for title in (_title_of(phrase, noun, literals) for phrase in phrases) if title]


def _form(source: str, noun: str) -> re.Pattern[str]:
    kept = rf"{CONTAINER}|{noun}"
    return pattern(source.replace("{P}", plurals_only(noun)).replace("{N}", noun).replace("{L}", kept))


def _title_of(body: str, noun: str, literals: Literals) -> str:
    """Give the phrase that names the thing to create, without what only introduces or files it."""
    body = re.sub(r"\(\s*\)", " ", body).strip(" ,;:-–—")
    text, modifiers = _without_lead(without_courteous_tail(_without_filing(body, noun)), noun)
    text = _DANGLING.sub("", _without_filing(without_courteous_tail(text), noun))
    if not re.search(rf"\w|{HIDDEN}", text):
        text = modifiers
    alone = re.fullmatch(HIDDEN, text.strip())
    title = re.sub(r"\s+", " ", literals.restore(text)).strip()
    return title if alone or not title else title[0].upper() + title[1:]


def _without_filing(text: str, noun: str) -> str:
    form = _form(
        r"\s*,?\s*\b(?:to|on|onto|in|into|as|under|for) (?:my|the|our|a|an|your) (?:[\w-]+ )?(?:{L})\b\W*$", noun
    )
    end = max(0, len(text) - _FILING_WINDOW)
    return text[:end] + form.sub("", text[end:])


def _without_lead(text: str, noun: str) -> tuple[str, str]:
    """Drop the words before the thing; also give the modifiers of the noun, for "add a laundry task"."""
    modifiers = ""
    introduced = _form(_INTRODUCED, noun).match(text)
    if introduced and (not introduced["modifiers"] or pattern(r"(?:an?|another|the|new|one) ").match(text)):
        modifiers = introduced["modifiers"].strip()
        text = text[introduced.end() :]
        if pattern(_ABOUT).fullmatch(introduced["link"].strip()):
            text = pattern(r"^(?:the|a|an) ").sub("", text)
    else:
        text = _form(_FILED_FIRST, noun).sub("", text)
    text = pattern(rf"^(?:{_NAMING}|:)\s*").sub("", text)
    text = _WISHED.sub("", text)
    return without_courtesy(text) if pattern(r"please\b").match(text) else text, modifiers
