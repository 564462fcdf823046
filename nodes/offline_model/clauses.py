"""Split a message into clauses and find what each one requests: the action, with what certainty, and about what."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from toolweave.nodes.offline_model import english

# The certainty of an action: a weak one counts only beside the noun of a tool.
WEAK, LIKELY, SURE = 1, 2, 3

Manner = Literal["order", "question", "statement", "deed", "obligation", "noun", "none"]


OBLIGATION = (
    r"(?:(?:i|we)(?:'ve|'ll|'m| have| will| am)?(?: really| also| probably| still| just| now| then)* (?:need to|have to"
    r"|has to|got to|must(?: not)?|should(?: not)?|ought to|want to|supposed to|going to|gonna|gotta|plan to)"
    r"|gotta|gonna|need to|have to|must)(?: really| also| probably| still)*(?! you\b)"
)
# Past forms that describe a state of mind, not a completed task.
_NO_DEED = (
    r"(?!(?:need|want|think|forg|chang|decid|wonder|lik|lov|hop|tri|believ|mean|got|heard|saw|told|said|knew|tir|excit"
    r"|interest|worri|bor|annoy|relat|suppos|us|left|had|lost|felt|been|set|red|bed|inde|hundr)\w*)"
)
_IRREGULAR_DEEDS = "|".join(sorted(set(english.IRREGULAR) - {"did", "got", "left", "put", "set", "found", "told"}))
_DEED = rf"{_NO_DEED}(?:[a-z]{{2,20}}ed|{_IRREGULAR_DEEDS})\b"
_DONE = r"(?:done|finished|complete|completed)"
_FIELD = r"(?:tags?|labels?|description|due date|deadline|priority)"
_MINE = r"(?:my|the|this|our)"
_LATELY = r"(?: (?:already|just|finally|now))*"
_IS = r"(?:is|are|has been|have been|was|were|got)(?: (?:now|already|finally|all))*"
_NOT = r"(?:don't|do not|dont)"

# Phrases that request something without its verb, or report it as done. `{N}` stands for the nouns of the bound tools,
# `{L}` for those and for containers; the group `body` is the subject, `tail` is appended to it. Narrower forms precede
# wider ones that match, too.
_Idioms = dict[tuple[english.Action, Manner, int], tuple[str, ...]]
_ORDERS: _Idioms = {
    ("create", "order", SURE): (
        rf"(?:(?:i|we) )?(?:{_NOT}|never|must not|mustn't)(?: want to| let me)? forget (?:to |about )?(?P<body>.+)",
        r"(?:set (?:me )?)?(?:a )?remind(?:er)?(?: me| us)(?! (?:what|which|where|how|who|again))(?P<body> .+)",
        r"(?:i |we )?(?:\w+ ){0,4}?remember (?:to |that )(?P<body>.+)",
        r"(?:note|jot|write|take|put)(?: (?:it|this|that))? down(?: as (?:a |an )?{L})?(?P<body>.*)",
        r"(?:make|create|open|set(?: up)?|put together|assign)(?: me)? (?P<body>(?:an?|another|new|two)\b.*\b{N}\b.*)",
        r"(?:(?:make|take)(?: me)? (?:a )?(?:\w+ )?note|note to (?:self|me))(?: (?:to|of|about))?(?P<body>[\s:,].+)",
        r"(?:can|could|may) (?:i|we) (?:get|have|add) (?P<body>(?:a|an|another|new)\b.*\b{N}\b.*)",
        r"(?:add|put|save|enter|log|record|write) (?P<body>.+?) as (?:a |an |new |my )*{N}\b(?P<tail>.*)",
        (
            r"(?:add|put|throw|stick|place|get|write|pop|chuck|toss|include|enter|log|save) "
            r"(?P<body>(?!rid\b|a {N}|(?:the|a) following).+?) (?:down )?(?:on|onto|in|into|to|as) (?:my|the|our|a) "
            r"(?:[\w-]+ ){0,2}(?:{L})\b(?P<tail>(?!['’]s| (?:about|with id|called|number)).*)"
        ),
    ),
    ("update", "order", SURE): (
        rf"(?P<body>(?:add|attach|give|put|set)(?: \w+){{0,2}}? {_FIELD}\b(?! {{N}}).* (?:to|on|for|of) .+)",
        (
            r"(?P<body>(?:add|attach)(?: a| an| the| another)?(?: new)? (?:notes?|comments?|details?)\b(?! {N}).* "
            r"(?:to|on|for) (?:(?:the |my )?.*{N}\b|#?\d|it\b|that\b).*)"
        ),
        r"(?P<body>(?:cross|tick|check|mark) (?!if|whether|for)(?:.+ off\b|off ).*)",
        r"(?P<body>give (?!me\b|us\b)\S.* (?:a|an) .+|put off .+)",
    ),
    ("update", "order", LIKELY): (
        r"(?P<body>make (?:it|that|this|them|the|my|{N} #?\d|so that|#\d|[\ue000-\uf8ff]).*)",
        r"(?P<body>set (?!up\b|a\b|an\b|me\b|alarm|reminder).+ (?:to|as|for|due|by) .+)",
    ),
    ("create", "noun", SURE): (
        r"(?:my |the |a )?{N}(?P<tail> (?:for|due|by|on) [^:]{1,40})?\s*(?::|[-–—] )\s*(?P<body>[^?]+)",
        r"(?:(?:i|we)(?: would|'d)? )?(?:need|want|like|appreciate) (?P<body>(?:an?|another)\b(?: [\w-]+)*? {N}\b.+)",
        r"(?:there's|here's|i have|i've got) (?P<body>an?\b(?: [\w-]+)*? {N})(?: to (?=\w)|[^:]{0,40}:)(?P<tail>.+)",
        r"(?:a |an |the )?(?:new|another|one more|additional)(?: [\w-]+){0,2}? (?:{N}|one)\b(?P<body>.*)",
    ),
    ("create", "noun", LIKELY): (
        (
            r"(?:todo|to-do|task|reminder) (?!(?:list|app|is|are|for|with|due|called|named|titled|number|that|which"
            r"|about|of|on|in|to|from|has|was|should|must|can|done|finished|please|and)\b)(?P<body>[a-z]+ [^?\d#]+)"
        ),
        r"(?:a |an )(?:[\w-]+ ){0,2}?{N} (?:to|for|about|called|named)\b(?P<body>.+)",
    ),
    ("delete", "order", SURE): (
        (
            r"(?:take|get|have|move|strike|scratch|clear|pull) (?P<body>.+?) (?:off|out|from)(?: of)? "
            rf"{_MINE}\b(?: [\w-]+)?? {{L}}\b(?P<tail>.*)"
        ),
        r"(?:get rid of|throw (?:away|out)|throw|do away with|dispose of) (?P<body>.+)",
        r"forget (?:about )?(?!it$|that$|this$)(?P<body>.+)",
    ),
    ("delete", "statement", SURE): (
        rf"(?:i|we) {_NOT} (?:need|want)(?: to (?:see|keep|do|have))? (?P<body>.+?) (?:any ?more|any longer|now)\b.*",
        r"(?:i|we) no longer (?:need|want|care about)(?: to (?:see|keep|do|have))? (?P<body>.+)",
    ),
    ("delete", "statement", LIKELY): (
        r"(?P<body>.+?) (?:can (?:go|be (?:deleted|removed))|(?:is|are) (?:no longer|not) (?:needed|relevant))\b.*",
    ),
    ("list", "question", LIKELY): (r"remind me (?P<body>(?:what|which|how|again).+)",),
    ("search", "order", SURE): (
        r"(?:do|run|perform|make) (?:a |another )?(?:quick )?search(?: on| for| about| of)?(?P<body> .+)",
        r"(?:i'm |i am )?(?:look|looking|searching|hunt|dig)(?: (?:for|up|through|in|down|around))+(?P<body> .+)",
    ),
    ("list", "order", LIKELY): (
        r"(?:let me|i(?:'d| would)? (?:like|want|need) to) (?:see|view|look at|check)(?P<body> .+)",
        r"(?:(?:run|walk|talk) me through|give me|(?:pull|bring) up|i want|look at|go (?:over|through))(?P<body> .+)",
    ),
}
_REPORTS: _Idioms = {
    ("update", "deed", SURE): (
        rf"(?:i|we)(?:'ve|'m| have| am)?{_LATELY} (?:{_DONE}|did|dealt with|taken care of)(?: with| up)? (?P<body>.+)",
        r"(?:all )?(?:done|finished|completed)(?: with)? (?P<body>.+)",
        rf"(?P<body>(?:the |my )?{{N}} #?\d+\s*[:,-]?\s*(?:is |was )?(?:now |already )?{_DONE})",
        rf"(?P<body>(?:it|that|this|that one)(?:'s| is)(?: now| already| all)* {_DONE})",
    ),
    ("update", "statement", SURE): (
        r"(?P<body>.*\b{N} #?\d+\b(?:'s)?(?: [\w-]+){0,3}? (?:should|must|is|isn't|needs|has|was|wasn't|can|are)\b.*)",
        r"(?P<body>(?:the|my) .+? (?:moved|postponed|rescheduled|delayed|pushed)(?: back)? (?:to|until|on|for|by) .+)",
    ),
    ("update", "statement", LIKELY): (
        rf"(?P<body>.+? (?:is|are|been|was|were)(?:n't| not)?(?: \w+)? (?:{_DONE}|due|overdue|urgent|important)\b.*)",
    ),
    ("update", "deed", LIKELY): (
        rf"(?P<body>{_DEED}(?: [^\s,]+){{1,6}})",
        rf"(?:i|we)(?:'ve| have)?(?: (?:already|just|finally))* (?P<body>{_DEED}(?: [^\s,]+){{1,7}})",
        rf"(?P<body>(?:the|my|our) .+? {_IS} {_DEED}.*)",
    ),
}

ITEM_MARK = "\u2029"
"""Replaces the bullet of each item of a list."""
_BULLET = re.compile(r"[:;,.]?[ \t]*\n[ \t]*(?:[-*•–]|\d{1,2}[.)])[ \t]+")
NOT_AFTER_ABBREVIATION = r"(?<!\b[a-zA-Z])(?<!\b(?:Dr|Mr|Ms|St|vs|No|no|nr))(?<!\b(?:Mrs|e\.g|i\.e|etc))"
_SENTENCE_END = re.compile(rf"{NOT_AFTER_ABBREVIATION}[.!?;](?=\s)\s*|\n+")
_COURTESY = r"(?:please |then |also |can you |could you |you can |you may |would you |just |now |to )*"
_THEN = english.pattern(
    r"\s*,?\s*(?:\band )?(?:\bthen|\bafterwards|\bafter that|\bonce done|\bfinally)\b,?\s+"
    rf"(?={_COURTESY}(?:{english.ANY_VERB})\b)"
)
_ANOTHER = english.pattern(
    r"\s*,?\s*(?:\band|,) (?:also )?(?=(?:another|one more|one)(?: one| \w+)? (?:to|for|about|called|named)\b)"
)
# "and", a comma or a dash before an order that names the tools' things, or "and" before a question.
_ORDER = (
    r"\s*(?:,\s*(?:and |but |so )?|\s(?:and|but|so) |\s[–—-]\s)(?:also )?"
    rf"(?={_COURTESY}(?:{english.ANY_VERB})\b(?:(?! and ).){{0,80}}?(?:\b{{T}}))"
    rf"|\s*,\s*(?:and |so )?(?={_COURTESY}(?:mark|tick|check|cross|set|rename)\b.{{1,80}}?\b(?:as|off|to)\b)"
    r"|\s*,?\s+(?P<question>and )(?=(?:what(?:'s)?|which|how many|where|when|who)\b)"
)
_QUESTION_WORD = english.pattern(r"(?:what|which|how|where|when|who|tell|show)\b")


@dataclass(frozen=True)
class Clause:
    """One piece of a message without courtesies; `after` means that it must wait for the piece before."""

    text: str
    after: bool = False


def split_clauses(text: str, noun: str) -> Iterator[Clause]:
    """Yield the clauses of a message with hidden literals; courtesies alone make no clause."""
    for sentence in _split_sentences(_BULLET.sub(ITEM_MARK, text)):
        for number, part in enumerate(_THEN.split(sentence)):
            for place, piece in enumerate(_split_orders(part, noun)):
                stripped = english.strip_courtesy(piece)
                if stripped:
                    question = "?" if piece.rstrip().endswith("?") else ""
                    yield Clause(stripped + question, after=number > 0 and place == 0)


def _split_sentences(text: str) -> Iterator[str]:
    """Split at the ends of sentences; a question keeps its mark."""
    start = 0
    for match in _SENTENCE_END.finditer(text):
        yield text[start : match.start() + match.group().startswith("?")].strip()
        start = match.end()
    yield text[start:].strip()


def _split_orders(text: str, noun: str) -> Iterator[str]:
    things = (
        rf"(?:{noun}|{english.CONTAINER}|it|that|this|them|those|these|one|ones|#?\d+|everything)\b|{english.HIDDEN}"
    )
    order = english.pattern(_ORDER.replace("{T}", things))
    for part in _ANOTHER.split(text):
        start = 0
        for match in order.finditer(part):
            if match.start() > start and (not match["question"] or _QUESTION_WORD.match(part, start)):
                yield part[start : match.start()]
                start = match.end()
        yield part[start:]


_MAX_NOUN_PHRASE_CHARS = 80
_QUESTION = english.pattern(
    r"(?:wh(?:at|ich|ere|en|o|ose)(?:'?s)?|how|(?:do|did|have) (?:i|we|you)|has|am i|is|are|was|were there|does"
    r"|any(?:thing|one)?)\b.*"
)
_FIRST_WORD = english.pattern(r"([a-z]+)(?:-| |$|[:,])(.*)")


@dataclass(frozen=True)
class Cue:
    """The request of a clause: `body` is its subject; a weak one needs the noun of a tool."""

    action: english.Action | None
    strength: int
    body: str
    manner: Manner
    verb: str = ""


def find_cue(clause: str, noun: str) -> Cue:
    """Return the cue of a clause without courtesies; `noun` is the expression for the tools' nouns."""
    text, rest = clause[: english.MAX_CLAUSE_CHARS], clause[english.MAX_CLAUSE_CHARS :]
    cue = (
        _idiom_cue(text, noun, reports=False)
        or _verb_cue(text, english.STRONG_ACTIONS, SURE)
        or (Cue("list", WEAK, text, "question") if _QUESTION.match(text) else None)
        or _verb_cue(text, english.WEAK_ACTIONS, WEAK)
        or _obligation_cue(text, noun)
        or _idiom_cue(text, noun, reports=True)
        or _noun_cue(text, noun)
        or Cue(None, 0, text, "none")
    )
    return replace(cue, body=cue.body + rest)


def _idiom_cue(text: str, noun: str, *, reports: bool) -> Cue | None:
    for form, (action, manner, strength) in _compiled_idioms(noun, reports):
        match = form.fullmatch(text)
        if match:
            body = match["body"] + (match.groupdict().get("tail") or "")
            return Cue(action, strength, body.strip(" :,-–"), manner)
    return None


@lru_cache(maxsize=32)
def _compiled_idioms(noun: str, reports: bool) -> list[tuple[re.Pattern[str], tuple[english.Action, Manner, int]]]:
    return [
        (english.noun_rule(form, noun), cue)
        for cue, forms in (_REPORTS if reports else _ORDERS).items()
        for form in forms
    ]


def _verb_cue(text: str, actions: Mapping[str, tuple[english.Action, ...]], strength: int) -> Cue | None:
    match = _FIRST_WORD.match(text)
    verb = _base_verb(match[1].lower()) if match else ""
    if match and verb in actions:
        return Cue(actions[verb][0], strength, match[2], "order", verb)
    return None


def _base_verb(word: str) -> str:
    if word in english.STRONG_ACTIONS or word in english.WEAK_ACTIONS:
        return word
    for ending, replacement in (("ing", ""), ("ing", "e"), ("ting", "t")):
        form = word.removesuffix(ending) + replacement
        if word.endswith(ending) and (form in english.STRONG_ACTIONS or form in english.WEAK_ACTIONS):
            return form
    return next((verb for verb in english.STRONG_ACTIONS if len(verb) > 3 and _is_typo(word, verb)), word)


def _is_typo(word: str, verb: str) -> bool:
    """Return whether two letters of a verb are swapped, or one is missing or extra."""
    longer, shorter = sorted((word, verb), key=len, reverse=True)
    missing = any(longer[:place] + longer[place + 1 :] == shorter for place in range(1, len(longer)))
    return word[:1] == verb[:1] and (sorted(word) == sorted(verb) or (missing and len(shorter) > 3))


def _obligation_cue(text: str, noun: str) -> Cue | None:
    """Read "I need to …" as an order if it is about the tools' things, else as something to remember."""
    match = english.pattern(rf"{OBLIGATION} (?P<body>.+)").match(text)
    if not match:
        return None
    body = match["body"]
    inner = (
        _idiom_cue(body, noun, reports=False)
        or _verb_cue(body, english.STRONG_ACTIONS, SURE)
        or _verb_cue(body, english.WEAK_ACTIONS, WEAK)
    )
    if inner and english.pattern(rf"\b(?:{noun}|{english.CONTAINER})\b").search(body):
        return inner
    return Cue("create", LIKELY, body, "obligation")


def _noun_cue(text: str, noun: str) -> Cue | None:
    named = english.pattern(rf"\b(?:{noun}|{english.VAGUE}|{english.CONTAINER})\b").search(text)
    return Cue("list", WEAK, text, "noun") if named and len(text) <= _MAX_NOUN_PHRASE_CHARS else None
