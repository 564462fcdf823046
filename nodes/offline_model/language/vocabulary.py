"""Hold the synonyms the rules work with: what verbs ask for, which nouns and values mean the same.

These are general English; the words of a domain come from the tools' own names and schemas.
"""

from functools import lru_cache
from typing import Literal

from toolweave.nodes.offline_model.language.words import stem, words

Action = Literal["create", "list", "get", "search", "update", "delete", "send", "run"]

READING: frozenset[Action] = frozenset({"list", "get", "search"})
CHANGING: frozenset[Action] = frozenset({"create", "update", "delete"})

# Verbs that ask for an action by themselves, and verbs that need the noun of a tool beside them.
STRONG_VERBS: dict[Action, str] = {
    "create": "add create insert append register jot",
    "list": "list show display enumerate print view",
    "search": "search find locate lookup query google",
    "update": (
        "update change edit modify mark rename retitle complete finish tick reschedule postpone reopen tag flag "
        "prioritise prioritize delay defer undo uncomplete uncheck untick unmark bump raise lower"
    ),
    "delete": (
        "delete del remove drop erase cancel scrap trash discard kill wipe eliminate rm purge destroy ditch bin nuke"
    ),
    "send": "send email mail notify",
    "run": "run execute launch trigger",
}
WEAK_VERBS: dict[Action, str] = {
    "create": (
        "new make put record enter include schedule note write remember save store plan throw stick place log set "
        "generate draft open"
    ),
    "list": "give tell see pull bring check review count recap read get fetch provide present share",
    "get": "get fetch read open retrieve describe download load cat view show check tell give inspect visit",
    "search": "look hunt seek check see",
    "update": (
        "set move make give push cross check correct adjust shift increase reduce decrease close resolve label assign "
        "switch turn extend amend revise patch enable disable put replace cut fix archive upgrade downgrade promote "
        "demote escalate"
    ),
    "delete": "clear strike take throw forget dump unset",
    "send": "post message reply forward publish share",
    "run": "start call perform invoke submit",
}


def _by_verb(table: dict[Action, str]) -> dict[str, tuple[Action, ...]]:
    verbs: dict[str, tuple[Action, ...]] = {}
    for action, listed in table.items():
        for verb in words(listed):
            verbs[verb] = (*verbs.get(verb, ()), action)
    return verbs


STRONG_ACTIONS = _by_verb(STRONG_VERBS)
WEAK_ACTIONS = _by_verb(WEAK_VERBS)
VERBS = frozenset(STRONG_ACTIONS) | frozenset(WEAK_ACTIONS)

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
"""Verbs in tool names: the first one that stands in the name says what the tool does."""

NOUN_GROUPS: tuple[frozenset[str], ...] = tuple(
    frozenset(group.split("|"))
    for group in (
        "todo|to-do|to do|task|reminder|chore|errand|item",
        "file|document|doc",
        "folder|directory|dir",
        "note|memo",
        "event|appointment|meeting",
        "email|e-mail|mail",
        "web|internet|online|google",
        "page|url|link|site|website|webpage",
        "user|person|member|account",
        "time|clock",
        "weather|forecast|temperature|rain|snow|storm|sunshine|sunny|rainy|cloudy|windy",
        "light|lamp",
        "sum|total|plus|number",
        "image|picture|photo",
        "repository|repo",
        "issue|ticket|bug",
        "order|purchase",
        "product|article",
        "job|run",
        "row|record|entry",
        "price|cost",
        "dice|die",
        "product|article|item",
        "customer|client|buyer|shopper",
        "shop|store|branch",
        "parcel|package|packet",
        "shipping|shipment|delivery|postage",
        "stock|inventory|availability|available",
        "review|feedback|opinion",
        "email|email address|e-mail address",
        "hour|opening",
    )
)

VERB_GROUPS: tuple[frozenset[str], ...] = tuple(
    frozenset(words(group))
    for group in (
        "lend loan borrow",
        "book reserve reservation booking",
        "buy purchase order",
        "pay settle",
        "rent hire lease",
        "hire employ recruit",
        "invite ask",
        "register enrol enroll signup sign",
        "assign allocate delegate hand",
        "close resolve finish complete",
        "move reschedule postpone shift",
        "cancel revoke abort",
        "return refund bring",
        "send ship deliver dispatch mail",
        "start begin launch",
        "stop end halt terminate",
        "approve accept confirm",
        "reject decline refuse deny",
        "comment remark reply answer",
        "rate review",
        "translate interpret",
        "convert exchange",
        "calculate compute estimate",
        "upload attach",
        "block ban suspend",
        "renew extend prolong",
        "report file",
        "own possess belong",
        "rise sunrise dawn",
        "set sunset dusk",
    )
)
"""Verbs of operations that ask for the same, with the nouns made of them."""

# Where things are kept ("on my list"): never part of what is said about the thing itself.
CONTAINERS = ("list", "backlog", "board", "agenda", "plate", "inbox")

# Words for the things at hand when their noun is not said.
VAGUE_NOUNS = ("thing", "stuff", "one", "everything", "anything", "something", "nothing", "all", "entry", "point")

_HIGH = "high urgent important critical top highest asap crucial pressing vital essential major severe"
_MEDIUM = "medium normal moderate mid average regular standard ordinary"
_LOW = "low minor trivial unimportant lowest"
_COMPLETED = "completed complete done finished closed resolved ticked accomplished"
_ACTIVE = (
    "active open pending unfinished incomplete outstanding undone uncompleted remaining remain remains left unresolved "
    "upcoming current unsolved"
)
VALUE_SYNONYMS: dict[str, tuple[str, ...]] = {
    "high": (*words(_HIGH), "priority one"),
    "medium": tuple(words(_MEDIUM)),
    "low": (*words(_LOW), "nice-to-have", "nice to have", "not urgent", "not important", "not so important"),
    "completed": (*words(_COMPLETED), "ticked off", "checked off", "crossed off", "did already", "already did"),
    "active": (
        *words(_ACTIVE),
        *("not done", "not finished", "not completed", "not complete", "to be done", "in progress"),
    ),
    "archived": ("archived", "archive", "shelved"),
    "all": ("all", "everything", "any", "every", "both"),
    "celsius": ("celsius", "centigrade", "metric", "°c"),
    "fahrenheit": ("fahrenheit", "imperial", "°f"),
    "asc": ("asc", "ascending", "oldest first", "oldest", "a-z"),
    "desc": ("desc", "descending", "newest first", "newest", "latest", "most recent", "z-a"),
    "positive": tuple(words("positive good great excellent love loved like wonderful amazing happy best fantastic")),
    "negative": tuple(words("negative bad terrible awful hate hated poor worst horrible angry sad disappointing")),
    "neutral": tuple(words("neutral okay mixed average")),
    "cancelled": ("cancelled", "canceled", "called off"),
    "eur": ("eur", "euro", "euros", "€"),
    "usd": ("usd", "us dollar", "us dollars", "american dollar", "american dollars", "dollar", "dollars", "$", "bucks"),
    "gbp": ("gbp", "british pound", "british pounds", "pound sterling", "pounds sterling", "pound", "pounds", "£"),
    "jpy": ("jpy", "japanese yen", "yen", "¥"),
    "chf": ("chf", "swiss franc", "swiss francs", "franc", "francs"),
    "sek": ("sek", "swedish krona", "swedish kronor", "swedish crown", "swedish crowns"),
    "nok": ("nok", "norwegian krone", "norwegian kroner"),
    "dkk": ("dkk", "danish krone", "danish kroner"),
    "cad": ("cad", "canadian dollar", "canadian dollars"),
    "aud": ("aud", "australian dollar", "australian dollars"),
    "inr": ("inr", "indian rupee", "indian rupees", "rupee", "rupees", "₹"),
    "cny": ("cny", "chinese yuan", "yuan", "renminbi", "rmb"),
    "on": ("on", "enabled", "enable", "active", "yes", "true"),
    "off": ("off", "disabled", "disable", "inactive", "no", "false"),
}
"""The ways to say a value, by the concept they stand for."""

OPPOSITE_VALUES = {
    one: other
    for pair in (("completed", "active"), ("high", "low"), ("on", "off"))
    for one, other in (pair, pair[::-1])
}

VERB_VALUES = {
    "completed": (
        r"complete|finish|tick|tick off|check|check off|cross|cross off|close|resolve|(?:cross|tick|check|mark) .+ off"
    ),
    "active": r"undo|uncomplete|reopen|re-open|uncheck|untick|unmark|resume|restart|reactivate|restore",
    "archived": r"archive",
    "on": r"enable|(?:turn|switch|put) .*\bon|(?:turn|switch) on",
    "off": r"disable|(?:turn|switch) .*\boff|(?:turn|switch) off",
}
"""The verbs (as expressions) that imply a value: to finish something is to set its state to completed."""

# Small words that stand for a parameter.
PARAMETER_WORDS: dict[str, str] = {
    "priority": "priority importance urgency",
    "title": "title name subject headline wording",
    "name": "name title",
    "description": "description details detail note notes comment",
    "body": "body text message content",
    "due": "due deadline date",
    "deadline": "due deadline date",
    "tags": "tag tags label labels category categories hashtag hashtags tagged labelled labeled",
    "tag": "tag tags label labels category tagged labelled labeled",
    "labels": "label labels tag tags labelled labeled tagged",
    "status": "status state completion",
    "limit": "limit",
}


@lru_cache(maxsize=4096)
def verb_family(verb: str) -> frozenset[str]:
    """Give a verb of an operation together with its synonyms."""
    wanted = stem(verb)
    return frozenset({verb}).union(*(group for group in VERB_GROUPS if any(stem(one) == wanted for one in group)))


@lru_cache(maxsize=4096)
def noun_family(noun: str) -> frozenset[str]:
    """Give a noun together with its synonyms."""
    wanted = stem(noun)
    family = frozenset({noun})
    for group in NOUN_GROUPS:
        if any(stem(member) == wanted for member in group):
            family |= group
    return family
