"""Extract what a phrase names: the title of a new thing, the topic of a search, an existing thing."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from toolweave.nodes.offline_model import english
from toolweave.nodes.offline_model.clauses import ITEM_MARK, OBLIGATION
from toolweave.nodes.offline_model.tools import ToolSpec

_COUNT = r"(?:\d{1,2}|two|three|four|five|six|some|several|both|these|the following)"
_NAMING = r"(?:called|named|titled|entitled|saying|that says|with (?:the )?(?:title|name)|(?:title|name)\s*[:=])"
_ABOUT = r"(?:for|about|regarding|concerning|related to|on)"
_FILED_IN = r"(?:to|on|in|into) (?:my|the) (?:[\w-]+ )?(?:{L})"
_INTRODUCED = (
    rf"(?:(?:me|us|up|down|in) )?(?:(?:a|an|the|another|one more|one|my|new|this|{_COUNT}) )*"
    r"(?P<modifiers>(?:[\w-]+,? ){0,3}?)(?:{N})(?![\w-])(?: (?:item|entry|please|for me)\b)*"
    rf"(?: {_FILED_IN})?\s*"
    rf"(?P<link>[:,–—-]|{_NAMING}|(?:that|so that) |to (?:do )?(?=\S)|{_ABOUT}\b|of\b|$|(?={english.HIDDEN})|(?=\S))\s*"
)
_FILED_FIRST = (
    rf"^(?:(?:me|us) )?(?:(?:this|these|the following)(?: (?:things|items))?)?(?: ?{_FILED_IN})?\s*[:-]\s*"
    r"|^one (?:to|for|about) "
)
_WISHED = english.pattern(
    rf"^(?:that |to |about |of )?(?:{OBLIGATION} (?:to |remember to )?|to (?=\w)|about (?:the )?)"
)
_DANGLING = english.pattern(r"(?:[\s,;:–—-]|\b(?:by|on|for|due|and|with|at|before|until|as|is|it's)$)+$")
_SEVERAL = (
    rf"(?:(?:me|my|a|the|{_COUNT}|few|new|couple of|following|more) )*(?:{{P}})"
    r"\s*(?:[:–—-]|to\b|for\b|called\b|named\b)?\s*(?P<items>.+)$"
    rf"|(?:these|the following)(?: (?:\w+ )?(?:things|items|{{N}}))?(?: {_FILED_IN})?\s*[:–—-]\s*(?P<listed>.+)$"
)
_ONLY_LINKS = r"(?:[\s,;:&]|\b(?:and|also|the|these|both|{N})\b)*"
_SEPARATOR = re.compile(r"\s*[,;]\s*(?:and\s+)?|\s+and\s+(?:to\s+)?")


def find_titles(body: str, noun: str, literals: english.Literals) -> list[str]:
    """Return the titles in a request: several if it is for several things, none if it names none."""
    several = english.noun_rule(_SEVERAL, noun).match(body.strip())
    quoted = literals.in_text(body, "quoted")
    around = re.sub(english.HIDDEN, " ", english.strip_container(body, noun))
    if len(quoted) > 1 and english.noun_rule(_ONLY_LINKS, noun).fullmatch(around):
        return [literal.value for _, literal in quoted]
    if ITEM_MARK in body:
        phrases = body.split(ITEM_MARK)[1:]
    elif several:
        phrases = _SEPARATOR.split(several["items"] or several["listed"])
    else:
        phrases = [body]
    return [title for title in (_extract_title(phrase, noun, literals) for phrase in phrases) if title]


def _extract_title(body: str, noun: str, literals: english.Literals) -> str:
    """Return the title of the thing to create, without the words that introduce it or name its container."""
    body = re.sub(r"\(\s*\)", " ", body).strip(" ,;:-–—")
    text = _DANGLING.sub("", _strip_lead(english.strip_courtesy_tail(english.strip_container(body, noun)), noun))
    alone = re.fullmatch(english.HIDDEN, text.strip())
    title = re.sub(r"\s+", " ", literals.restore(text)).strip()
    return title if alone or not title else title[0].upper() + title[1:]


def _strip_lead(text: str, noun: str) -> str:
    """Drop the words before the title."""
    introduced = english.noun_rule(_INTRODUCED, noun).match(text)
    if introduced and (not introduced["modifiers"] or english.pattern(r"(?:an?|another|the|new|one) ").match(text)):
        text = text[introduced.end() :]
        if english.pattern(_ABOUT).fullmatch(introduced["link"].strip()):
            text = english.pattern(r"^(?:the|a|an) ").sub("", text)
    else:
        text = english.noun_rule(_FILED_FIRST, noun).sub("", text)
    return _WISHED.sub("", text)


# Words before the topic of a search.
_ABOUT_TOPIC = (
    r"(?:about|regarding|concerning|with regard to|dealing with|relat(?:ed|ing) to|relevant to|to do with"
    r"|mention(?:s|ing|ed)?(?: of)?|contain(?:s|ing|ed)?|includ(?:es|ing)|match(?:es|ing)?|says?|saying|reads"
    r"|(?:for )?the (?:word|term|phrase|text|keyword|string)s?)"
)
_STATED = english.pattern(rf".*?\b{_ABOUT_TOPIC}\s*:?\s+(?P<topic>.+)")
_STATES_TOPIC = english.pattern(
    rf"\b{_ABOUT_TOPIC}(?!\w)|\b(?:search|look|looking|hunt|searching)(?: \w+){{0,4}} for\b|\bsearch on\b"
    r"|^search(?: [^:]{0,40}):|\b(?:word|term|phrase|text|keyword)s?\b"
)
_SOUGHT = english.pattern(r"(?P<where>.{0,80}?)\bfor (?P<topic>.+)")
_FILLER = frozenset(
    english.words(
        """
        word words term phrase text string keyword contain contains containing include includes including mention
        mentions mentioned about related regarding tell give see look find search overview summary next today's
        currently current available existing listed list number count total full whole complete entire left due supposed
        need needs want far moment soon assigned u going happening scheduled planned empty trying remain remains inside
        have know remember forgot forgotten think recall wondering add added put wrote noted created made
        """
    )
)
# Properties of things: part of the question, not of its topic, unless "about" precedes them.
_ASPECTS = frozenset({"status", "title", "detail", "priority"})
_TOKEN = re.compile(rf"{english.HIDDEN}|[^\W_]+(?:['’\-./:][^\W_]+)*")


def states_topic(text: str) -> bool:
    """Return whether a request states its topic: "about", "mentioning", "search … for"."""
    return bool(_STATES_TOPIC.search(text))


def stated_topic(text: str) -> str:
    """Return the text after "about" and similar words; empty if there is none."""
    match = _STATED.fullmatch(text)
    return match["topic"] if match else ""


def find_topic(text: str, tool: ToolSpec, literals: english.Literals) -> str:
    """Return the topic of a reading request; empty if it is about everything."""
    text = english.strip_courtesy_tail(text)
    quoted = literals.in_text(text, "quoted")
    if quoted:
        return quoted[0][1].value
    stated = _trim_topic(stated_topic(text), tool, frozenset())
    if stated:
        return literals.restore(stated)
    trimmed = (_trim_topic(part, tool, _ASPECTS) for part in _topic_candidates(text, tool))
    return literals.restore(next((topic for topic in trimmed if topic), ""))


def _topic_candidates(text: str, tool: ToolSpec) -> Iterator[str]:
    sought = _SOUGHT.fullmatch(text)
    if sought:
        yield sought["topic"]
    things = rf"(?:{tool.any_noun}|{english.VAGUE}|{english.CONTAINER})"
    for form in (
        rf".*?\b{things} (?:for|on|with|of|called|named|titled|to) (?!me\b|us\b|do\b)(?P<topic>.+)",
        rf".*?\b{things}\s*[:?]\s*(?P<topic>.+)",
    ):
        match = english.pattern(form).fullmatch(text)
        if match:
            yield match["topic"]
    yield text


def _trim_topic(text: str, tool: ToolSpec, aspects: frozenset[str]) -> str:
    """Drop words without content of their own from both ends."""
    noun = tool.any_noun
    things = english.pattern(rf"(?:{noun}|{english.CONTAINER}|{english.VAGUE})")
    own = {english.stem(word) for word in (*tool.nouns, tool.verb) if word} | aspects
    text = english.strip_container(text, noun, anywhere=True)
    tokens = list(_TOKEN.finditer(text))
    low = [token.group().lower().replace("’", "'") for token in tokens]
    empty = [
        word in english.STOP_WORDS or word in _FILLER or bool(things.fullmatch(word)) or english.stem(word) in own
        for word in low
    ]
    first, last = 0, len(tokens)
    while first < last and empty[first]:
        first += 1
    while last > first and empty[last - 1]:
        last -= 1
    return text[tokens[first].start() : tokens[last - 1].end()] if first < last else ""


TargetKind = Literal["ids", "phrase", "pronoun", "place", "everything", "nothing"]
ORDINALS = {
    "first": 0, "1st": 0, "second": 1, "2nd": 1, "third": 2, "3rd": 2, "fourth": 3, "4th": 3, "fifth": 4, "5th": 4,
    "sixth": 5, "6th": 5, "seventh": 6, "7th": 6, "eighth": 7, "8th": 7, "ninth": 8, "9th": 8, "tenth": 9, "10th": 9,
    "last": -1, "final": -1, "latest": -1, "newest": -1,
}  # fmt: skip
_PRONOUNS = frozenset({"it", "that", "this", "them", "those", "these", "him", "same"})
_EVERYTHING = frozenset({"all", "everything", "every", "both"})
_ENDS = " ,;:.!?-–—'’"
_DETERMINERS = english.pattern(r"^(?:(?:the|my|a|an|that|this|our|your|for|of|about|to) )+")
_KIND_LAST = (
    r"(?:'s)?(?: (?:{N}|one|thing|entry))?"
    r"(?: (?:is|are|was|to|for|of|as|on|it|from|so|that|and|now|please|has been|been|should be|should|be|by|until))*$"
)


@dataclass(frozen=True)
class Target:
    """The thing that a request acts on: `ids`, a `text` that names it, or its `place` in a list.

    `quoted` means that the text is its literal title.
    """

    kind: TargetKind
    ids: tuple[int | str, ...] = ()
    text: str = ""
    quoted: bool = False
    place: int = 0

    @property
    def stems(self) -> list[str]:
        """Return the stems of the words that carry meaning; of all words if none does."""
        listed = [english.stem(word) for word in english.words(self.text) if word not in english.STOP_WORDS]
        return listed or [english.stem(word) for word in english.words(self.text)]


def read_target(text: str, tool: ToolSpec, literals: english.Literals) -> Target:
    """Return the target in the rest of a request, without its verb and its new values."""
    text, noun = re.sub(r"^[\s,;:.!?–—-]+(?!\d)|[\s,;:.!?–—-]+$", "", text), tool.any_noun
    ids = _named_ids(text, noun, literals) if tool.key and tool.key.kind == "string" else _numeric_ids(text, noun)
    if ids:
        return Target("ids", ids=ids)
    quoted = literals.in_text(text, "quoted")
    if quoted:
        return Target("phrase", text=quoted[0][1].value, quoted=True)
    bare = english.words(english.noun_rule(r"\b(?:{N}|{L}|{V})\b", noun).sub(" ", text))
    meaningful = [word for word in bare if word not in english.STOP_WORDS]
    place = next((word for word in bare if word in ORDINALS), None)
    if place and all(word == place for word in meaningful):
        return Target("place", place=ORDINALS[place])
    if meaningful or re.search(english.HIDDEN, text):
        return Target("phrase", text=literals.restore(_target_phrase(text, noun)))
    all_words = english.words(text)
    if any(word in _EVERYTHING for word in all_words):
        return Target("everything", text=" ".join(all_words))
    points = any(word in _PRONOUNS for word in all_words) or english.noun_rule(
        r"(?:the|my) (?:{N}|one)", noun
    ).fullmatch(text)
    return Target("pronoun" if points else "nothing")


def _named_ids(text: str, noun: str, literals: english.Literals) -> tuple[str, ...]:
    """Return the id behind the noun: a word with a digit, or a literal."""
    form = rf"\b(?:{noun}|id)(?: with)?(?: id)?\s*[#:]?\s*(?P<id>(?=[\w-]*\d)[\w-]{{1,64}}|{english.HIDDEN})"
    named = english.pattern(form).search(text)
    return (literals.restore(named["id"]),) if named else ()


def _numeric_ids(text: str, noun: str) -> tuple[int, ...]:
    """Return numeric ids: "task 3", "#3 and #5", "number three", or numbers without other words."""
    spelled = english.pattern(rf"\b(?P<naming>number|id|{noun}) (?P<number>{'|'.join(english.NUMBER_WORDS)})\b")
    text = spelled.sub(lambda match: f"{match['naming']} {english.NUMBER_WORDS[match['number'].lower()]}", text)
    naming = (
        rf"(?:(?:\b(?:{noun}|number|no\.|nr\.?|id|both)|#)(?: with)?(?: the)?(?: numbers?| ids?| no\.)?\s*[#:]?\s*)"
    )
    number = r"\d{1,18}(?![\d.:]\d)"
    more = rf"(?:(?:[\s,&+]|\band\b|\bor\b)+{naming}?{number})"
    listed = english.pattern(rf"{naming}(?P<ids>{number}\b{more}*)").finditer(text)
    numbers = [int(digits) for match in listed for digits in re.findall(r"\d+", match["ids"])]
    if not numbers and all(word.isdigit() or word in english.STOP_WORDS for word in english.words(text)):
        numbers = [int(digits) for digits in re.findall(r"(?<![-\d])\d{1,18}", text)]
    return tuple(dict.fromkeys(numbers))


def _target_phrase(text: str, noun: str) -> str:
    """Drop the words around the name of a thing: "the task about plants" to "plants"."""
    text = english.strip_container(text, noun).strip()
    text = _DETERMINERS.sub("", text)
    return english.noun_rule(_KIND_LAST, noun).sub("", text).strip(_ENDS)
