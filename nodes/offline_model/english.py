"""English vocabulary and grammar for the rules: words and stems, synonyms, quoted texts, courtesies."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Literal

WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


def words(text: str) -> list[str]:
    """Return the words of a text in lower case, in order."""
    return [match.group().lower().replace("’", "'") for match in WORD.finditer(text)]


STOP_WORDS = frozenset(
    words(
        """
        a an the this that these those it its it's is are was were be been being am do does did done doing have has had
        having i i'm i've i'd i'll me my mine myself yourself we we're our ours us you your yours he she they them their
        there to of in on at by for from with without about into onto over off as and or but if so than then too very
        just can could would will shall should may might must not no yes please pls plz thanks thank what what's which
        who whom whose when where where's how why whether all any some every each both either one ones like else also
        again already still now ever yet really actually maybe perhaps up out down got get gets let let's here more most
        much many only own same such per via hey hi hello ok okay isn't aren't wasn't weren't don't doesn't didn't
        haven't hasn't hadn't won't can't couldn't shouldn't somewhere anywhere something anything everything nothing
        somebody anyone anybody someone thing things stuff bit lot kind sort we've they've you've we'd you'd you'll
        whats wheres thats dont doesnt didnt cant isnt arent havent hasnt wont im ive id that's there's here's who's
        they're you're he's she's where's i'd
        """
    )
)
LIMITING_WORDS = frozenset(words(
    "not no never don't dont none nothing without but except excluding besides apart other instead rather only "
    "if unless when whenever until till once provided or"
))  # fmt: skip
"""Words that limit a request or make it conditional: a change that ignores one does too much."""
IRREGULAR = {
    "bought": "buy", "paid": "pay", "sent": "send", "wrote": "write", "written": "write", "called": "call",
    "made": "make", "did": "do", "took": "take", "taken": "take", "went": "go", "gone": "go", "got": "get",
    "gave": "give", "given": "give", "found": "find", "sold": "sell", "told": "tell", "read": "read", "ran": "run",
    "met": "meet", "built": "build", "cut": "cut", "put": "put", "set": "set", "fed": "feed", "held": "hold",
    "brought": "bring", "taught": "teach", "caught": "catch", "swept": "sweep", "kept": "keep", "left": "leave",
    "chose": "choose", "chosen": "choose", "drove": "drive", "driven": "drive", "spoke": "speak", "spoken": "speak",
    "drew": "draw", "drawn": "draw", "grew": "grow", "hung": "hang", "lent": "lend", "shut": "shut", "won": "win",
    "picked": "pick", "returned": "return", "dug": "dig", "ate": "eat", "began": "begin", "begun": "begin",
    "signed": "sign", "rode": "ride", "rang": "ring", "rung": "ring", "shot": "shoot", "sewn": "sew", "mown": "mow",
}  # fmt: skip
_PLURAL_ES = re.compile(r"(?:s|x|z|ch|sh)es$")
_DOUBLED = re.compile(r"([bdfgklmnprt])\1$")


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """Reduce one word to a rough stem: case, plural, -ing, -ed and final -e are dropped."""
    word = lemma(word)
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


@lru_cache(maxsize=4096)
def lemma(word: str) -> str:
    """Reduce one word as `stem` does, but keep its final -e: close to the word that a search needs."""
    word = re.sub(r"['’]s?$", "", word.lower())
    if word in IRREGULAR:
        return IRREGULAR[word]
    word = singular(word)
    for ending in ("ing", "ed"):
        if len(word) > len(ending) + 2 and word.endswith(ending):
            return _DOUBLED.sub(r"\1", word[: -len(ending)])
    return word


def singular(noun: str) -> str:
    """Return the singular of a noun; short words and those in -ss, -us and -is stay unchanged."""
    if len(noun) > 4 and noun.endswith("ies"):
        return noun[:-3] + "y"
    if len(noun) > 4 and _PLURAL_ES.search(noun):
        return noun[:-2]
    return noun[:-1] if len(noun) > 3 and noun.endswith("s") and not noun.endswith(("ss", "us", "is")) else noun


def stems(text: str) -> list[str]:
    """Return the stems of the words that carry meaning, in order."""
    return [stem(word) for word in words(text) if word not in STOP_WORDS]


def count_shared(expected: Iterable[str], present: Iterable[str]) -> int:
    """Count the expected stems that are present; allow a typo in words of five letters or more."""
    there = set(present)
    long = [word for word in there if len(word) > 4]
    return sum(
        word in there or (len(word) > 4 and bool(get_close_matches(word, long, 1, 0.85))) for word in set(expected)
    )


NUMBER_WORDS = {word: at for at, word in enumerate(words("one two three four five six seven eight nine ten"), 1)}
NEVER_MATCHES = "(?!)"
"""A regular expression that matches nothing."""
# Rules read this much of a clause: enough for any request, and quadratic patterns stay cheap.
MAX_CLAUSE_CHARS = 600


@lru_cache(maxsize=4096)
def pattern(source: str) -> re.Pattern[str]:
    """Compile a rule in which a space matches any white space and ' either apostrophe."""
    pieces: list[str] = []
    in_class = False
    for character, following in zip(source, source[1:] + "\0", strict=True):
        in_class = character == "[" or (in_class and character != "]")
        if character == "'":
            pieces.append("'’" if in_class else "['’]")
        elif character == " " and not in_class:
            pieces.append(r"\s" if following in "*+?{" else r"\s+")
        else:
            pieces.append(character)
    return re.compile("".join(pieces), re.IGNORECASE)


Action = Literal["create", "list", "get", "search", "update", "delete", "send", "run"]
READ_ACTIONS: frozenset[Action] = frozenset({"list", "get", "search"})
WRITE_ACTIONS: frozenset[Action] = frozenset({"create", "update", "delete"})
# Verbs that request an action by themselves, and verbs that need the noun of a tool beside them.
STRONG_VERBS: dict[Action, str] = {
    "create": "add create insert append register jot",
    "list": "list show display enumerate print view",
    "search": "search find locate lookup query google",
    "update": """update change edit modify mark rename retitle complete finish tick reschedule postpone reopen tag flag
        prioritise prioritize delay defer undo uncomplete uncheck untick unmark bump raise lower""",
    "delete": """delete del remove drop erase cancel scrap trash discard kill wipe eliminate rm purge destroy ditch bin
        nuke""",
    "send": "send email mail notify",
    "run": "run execute launch trigger",
}
WEAK_VERBS: dict[Action, str] = {
    "create": """new make put record enter include schedule note write remember save store plan throw stick place log
        set generate draft open""",
    "list": "give tell see pull bring check review count recap read get fetch provide present share",
    "get": "get fetch read open retrieve describe download load cat view show check tell give inspect visit",
    "search": "look hunt seek check see",
    "update": """set move make give push cross check correct adjust shift increase reduce decrease close resolve label
        assign switch turn extend amend revise enable disable put replace cut fix archive""",
    "delete": "clear strike take throw forget dump unset",
    "send": "post message reply forward publish share",
    "run": "start call perform invoke submit",
}


def _actions_by_verb(table: dict[Action, str]) -> dict[str, tuple[Action, ...]]:
    verbs: dict[str, tuple[Action, ...]] = {}
    for action, listed in table.items():
        for verb in words(listed):
            verbs[verb] = (*verbs.get(verb, ()), action)
    return verbs


STRONG_ACTIONS = _actions_by_verb(STRONG_VERBS)
WEAK_ACTIONS = _actions_by_verb(WEAK_VERBS)
VERBS = frozenset(STRONG_ACTIONS) | frozenset(WEAK_ACTIONS)
ANY_VERB = "|".join(sorted(VERBS, key=lambda verb: (-len(verb), verb)))
"""The verbs as one alternative, longest first."""
_TOOL_VERBS: dict[Action, str] = {
    "create": "create add new insert make register append put write save store",
    "list": "list ls all index enumerate show",
    "search": "search find query lookup grep",
    "update": "update edit modify set change patch rename complete mark move toggle",
    "delete": "delete remove drop destroy clear cancel rm purge",
    "send": "send email notify post publish reply",
    "get": "get read fetch retrieve view describe open download check load",
    "run": "run execute start call trigger launch invoke",
}
TOOL_VERBS: dict[str, Action] = {verb: action for action, listed in _TOOL_VERBS.items() for verb in words(listed)}
"""Verbs in tool names: the first one in a name is the action of the tool."""
_NOUN_GROUPS = [frozenset(group.split("|")) for group in (
    "todo|to-do|to do|task|reminder|chore|errand|item", "file|document|doc", "folder|directory|dir", "note|memo",
    "event|appointment|meeting", "email|e-mail|mail", "web|internet|online|google",
    "page|url|link|site|website|webpage", "time|clock", "weather|forecast|temperature|rain|snow", "light|lamp",
    "sum|total|plus|number", "repository|repo", "issue|ticket|bug",
)]  # fmt: skip
# Words for a container of things ("on my list"): never part of a title.
CONTAINERS = ("list", "backlog", "board", "agenda", "plate", "inbox")
# Words that replace the noun of a thing.
VAGUE_NOUNS = ("thing", "stuff", "one", "everything", "anything", "something", "nothing", "all", "entry", "point")
_VALUES = {
    "high": "high, urgent, important, critical, top, highest, asap, crucial, pressing, vital, essential, major, "
    "priority one",
    "medium": "medium, normal, moderate, mid, average, regular, standard, ordinary",
    "low": "low, minor, trivial, unimportant, lowest, nice-to-have, nice to have, not urgent, not important, "
    "not so important",
    "completed": "completed, complete, done, finished, closed, resolved, accomplished, ticked off, checked off, "
    "crossed off, did already, already did",
    "active": "active, open, pending, unfinished, incomplete, outstanding, undone, uncompleted, remaining, remain, "
    "remains, left, unresolved, upcoming, current, unsolved, not done, not finished, not completed, not complete, "
    "to be done, in progress",
    "all": "all, everything, any, every, both",
    "true": "true, yes, on",
    "false": "false, no, off",
}
VALUE_SYNONYMS = {concept: tuple(listed.split(", ")) for concept, listed in _VALUES.items()}
"""Synonyms of values, by concept."""
OPPOSITE_VALUES = {"completed": "active", "active": "completed", "high": "low", "low": "high"}
VERB_VALUES = {
    "completed": r"complete|finish|tick|check|cross|close|resolve|(?:cross|tick|check|mark) .+ off",
    "active": r"open|undo|uncomplete|reopen|re-open|uncheck|untick|unmark|resume|restart|reactivate|restore",
}
"""Verbs (as expressions) that imply a value: to finish something sets its state to completed."""
# Words that name a parameter.
PARAMETER_WORDS: dict[str, str] = {
    "priority": "priority importance urgency",
    "title": "title name subject headline wording",
    "name": "name title",
    "description": "description details detail note notes comment",
    "body": "body text message content",
    **dict.fromkeys(("due", "deadline"), "due deadline date"),
    **dict.fromkeys(("tag", "tags", "labels"), "tag tags label labels category hashtag tagged labelled labeled"),
    "status": "status state completion",
}


_FAMILIES = {
    stem(noun): frozenset[str]().union(*(group for group in _NOUN_GROUPS if stem(noun) in map(stem, group)))
    for listed in _NOUN_GROUPS
    for noun in listed
}


def noun_synonyms(noun: str) -> frozenset[str]:
    """Return a noun and its synonyms."""
    return _FAMILIES.get(stem(noun), frozenset()) | {noun}


def plural_pattern(noun: str) -> str:
    """Return a regular expression for a noun and its plural; its spaces match hyphens, too."""
    body = re.escape(noun).replace(r"\-", r"[-\s]?").replace(r"\ ", r"[-\s]")
    if noun.endswith("s"):
        return body
    if noun.endswith("y") and noun[-2:-1] not in "aeou":
        return f"(?:{body}|{body[:-1]}ies)"
    return f"{body}(?:es|s)?" if noun.endswith(("x", "sh", "ch", "o")) else f"{body}s?"


def any_of_nouns(nouns: Iterable[str]) -> str:
    """Return a regular expression for any of the nouns, longest first; it matches nothing without nouns."""
    listed = sorted(set(nouns), key=lambda noun: (-len(noun), noun))
    return rf"(?:{'|'.join(plural_pattern(noun) for noun in listed)})" if listed else NEVER_MATCHES


def plurals_only(nouns: str) -> str:
    """Reduce an expression of `any_of_nouns` to the plural forms."""
    return nouns.replace("(?:es|s)?", "(?:es|s)").replace("s?", "s")


VAGUE = any_of_nouns(VAGUE_NOUNS)
CONTAINER = any_of_nouns(CONTAINERS)


@lru_cache(maxsize=4096)
def noun_rule(source: str, noun: str) -> re.Pattern[str]:
    """Compile a rule about nouns.

    `{N}` stands for the nouns, `{P}` for their plurals only, `{L}` for the nouns and the words for containers, `{V}`
    for words that replace a noun.
    """
    named = {"{N}": noun, "{P}": plurals_only(noun), "{L}": rf"(?:{CONTAINER}|{noun})", "{V}": VAGUE}
    return pattern(re.sub(r"\{[NPLV]\}", lambda match: named[match.group()], source))


# Only the end of a text can name a container; searching all of a long text would be slow.
_FILING_WINDOW = 200


def strip_container(text: str, noun: str = NEVER_MATCHES, *, anywhere: bool = False) -> str:
    """Drop the container of a thing ("on my list", "among the tasks"), at the end of a text or anywhere in it."""
    form = pattern(
        r"\b(?:off of|to|on|onto|in|into|as|under|for|from|off|among|through|across) (?:my|the|our|your|a|an|all) "
        rf"(?:[\w-]+ )??(?:{CONTAINER}|{noun})\b" + ("" if anywhere else r"\W*$")
    )
    end = 0 if anywhere else max(0, len(text) - _FILING_WINDOW)
    return text[:end] + form.sub(" ", text[end:])


OTHERS_LIST = pattern(rf"\b(?:to|on|onto|in|into|from|off) (?:[\w-]+'s|his|her|their) (?:[\w-]+ )?{CONTAINER}\b")
"""Matches the list of another person: no tool's own list."""

LiteralKind = Literal["quoted", "url", "email", "path"]
_FIRST_HIDDEN = 0xE000
_LAST_HIDDEN = 0xF8FF
HIDDEN = f"[{chr(_FIRST_HIDDEN)}-{chr(_LAST_HIDDEN)}]"
_HIDDEN = re.compile(HIDDEN)
_LITERAL = re.compile(
    r"""
      "(?P<double>[^"\n]{1,2000})"
    | “(?P<curly>[^”\n]{1,2000})”
    | «(?P<angle>[^»\n]{1,2000})»
    | `(?P<tick>[^`\n]{1,2000})`
    | (?<!\w)['‘](?P<single>(?:[^'’\n]|['’](?=\w)){1,2000})['’](?!\w)
    | (?P<url>\bhttps?://[^\s<>"'”]{1,2000})
    | (?P<email>(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,6})
    | (?P<path>(?<![\w/*.~-])(?:~|\.{1,2})?/[\w.*~/-]{1,400}
        | (?<![\w/*.~-])[\w.*~-]{1,200}/[\w.*~/-]{1,400}(?<=[\w*/])
        | (?<![\w/*.~-])(?:[\w-]{1,100}|\*{1,2})(?:\.[\w*-]{1,60}){0,3}\.[a-z][a-z0-9]{0,4}(?![\w.]*\w))
    """,
    re.VERBOSE,
)
_NOT_PATHS = re.compile(r"\d+/\d+(?:/\d+)?|and/or|w/.*|(?:[a-z]\.)+[a-z]", re.IGNORECASE)


@dataclass(frozen=True)
class HiddenLiteral:
    """One hidden literal: its raw text, and its value without quotes."""

    kind: LiteralKind
    value: str
    raw: str


@dataclass(frozen=True)
class Literals:
    """The hidden literals of one message, by the character that replaces each."""

    found: Mapping[str, HiddenLiteral]

    def restore(self, text: str) -> str:
        """Put the literals back with their quotes; without quotes if one is the whole text."""
        text = text.strip()
        return self.found[text].value if text in self.found else _HIDDEN.sub(lambda one: self.found[one[0]].raw, text)

    def in_text(self, text: str, *kinds: LiteralKind) -> list[tuple[str, HiddenLiteral]]:
        """Return the (character, literal) pairs of these kinds in a text, in order."""
        pairs = [(character, self.found[character]) for character in _HIDDEN.findall(text)]
        return [pair for pair in pairs if not kinds or pair[1].kind in kinds]


def hide_literals(text: str) -> tuple[str, Literals]:
    """Replace each quoted text, URL, e-mail address and path by one private-use character."""
    found: dict[str, HiddenLiteral] = {}

    def hide(match: re.Match[str]) -> str:
        raw, kind, tail = match.group(), match.lastgroup or "", ""
        if kind in ("url", "email", "path"):
            value = raw.rstrip(".,;:!?)")
            raw, tail = value, raw[len(value) :]
            if kind == "path" and (_NOT_PATHS.fullmatch(raw) or not re.search(r"[\w*]", raw)):
                return match.group()
        else:
            value, kind = match.group(kind), "quoted"
        character = chr(_FIRST_HIDDEN + len(found))
        if ord(character) > _LAST_HIDDEN or not value.strip():
            return match.group()
        found[character] = HiddenLiteral(kind, value.strip(), raw)  # type: ignore[arg-type]
        return character + tail

    return _LITERAL.sub(hide, _HIDDEN.sub("", text)), Literals(found)


_GREETING = r"hi(?: there)?|hello(?: there)?|hey(?: there)?|good (?:morning|afternoon|evening|day)"
_FILLER = (
    r"ok(?:ay)?|yes|yeah|sure|so|well|oh|um+|alright|right|also|then|and|now|actually|just|kindly|quickly|next|finally"
    r"|first(?: of all)?|secondly|by the way|btw|but|great|perfect|cool|sorry|excuse me|instead|wait(?=,)|no(?=[,.!-])"
)
_ASKING = (
    r"(?:can|could|would|will|shall|should|may|might) (?:you|we)(?: please| kindly| maybe| just| also)*"
    r"(?: be able to| mind| help me(?: to)?| like to)?|why (?:don't|not)(?: you)?|how about(?: you)?|you (?:can|may)"
)
_WISHING = (
    r"i(?:'d| would) (?:really )?(?:like|love|want)(?: you)?(?: to|(?= a | an ))"
    r"|i (?:want|need|wish)(?: for)? you to|i want to|i wanna|(?:i'm |i am )?trying to|let's|let us"
    r"|i(?:'d| would) be grateful if you(?: could| would)?|it would be (?:nice|great) if you (?:could|would)"
)
_POSSIBLY = r"if (?:possible|you (?:can|could|don't mind|please))"
_REASON = r"(?<=,) (?:i|we) (?:don't|do not|no longer) (?:need|want|have to)(?: do)? (?:it|that)(?: any ?more| now)?"
_BEGGING = r"please|pls|plz|help me(?: to)?|go ahead and|do me a favou?r and|be so (?:kind|nice)(?: as)? to"
_LEAD = pattern(rf"(?:(?:{_BEGGING}|{_POSSIBLY}|{_GREETING}|{_FILLER}|{_ASKING}|{_WISHING})(?![\w'-])[\s,!:.…-]*)+")
_THANKS = r"thanks(?: a lot| so much| in advance)?|thank you(?: very much| so much| in advance)?|thx|ty|cheers"
_TAIL = pattern(
    rf"(?:[\s,;]*(?<![\w'-])(?:please|pls|plz|{_THANKS}|for me|will you|would you|could you|can you"
    rf"|{_POSSIBLY}|{_REASON}|ok(?:ay)?|right|asap please)(?![\w'-]))*[\s.!?…,;]*$"
)
_TAIL_WINDOW = 120


def strip_courtesy(text: str) -> str:
    """Drop polite phrases before and after a request."""
    text = text.strip()
    lead = _LEAD.match(text)
    return strip_courtesy_tail(text[lead.end() :] if lead else text)


def strip_courtesy_tail(text: str) -> str:
    """Drop "please", thanks and closing punctuation at the end."""
    # Only the last words can be courtesies; searching all of a long text would be slow.
    match = _TAIL.search(text, max(0, len(text) - _TAIL_WINDOW))
    return text[: match.start() if match else len(text)].rstrip(" \t\r\n.!?…,;")
