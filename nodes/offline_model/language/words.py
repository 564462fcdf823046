"""Split text into words and reduce them to stems, so that "called mom" and "Call mom" meet."""

import re
from collections.abc import Iterable
from functools import lru_cache

WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


def words(text: str) -> list[str]:
    """List the words of a text in lower case, in order."""
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
    return _without_final_e(lemma(word))


@lru_cache(maxsize=4096)
def lemma(word: str) -> str:
    """Reduce one word as `stem` does, but keep its final -e: close to the word that a search would look for."""
    word = re.sub(r"['’]s?$", "", word.lower())
    if word in IRREGULAR:
        return IRREGULAR[word]
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 4 and _PLURAL_ES.search(word):
        word = word[:-2]
    elif len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        if len(word) > len(ending) + 2 and word.endswith(ending):
            return _DOUBLED.sub(r"\1", word[: -len(ending)])
    return word


def _without_final_e(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def stems(text: str) -> list[str]:
    """List the stems of the words that carry meaning, in order."""
    return [stem(word) for word in words(text) if word not in STOP_WORDS]


def is_near(one: str, other: str) -> bool:
    """Tell whether two words differ by at most one slip of the finger."""
    if one == other:
        return True
    if abs(len(one) - len(other)) > 1:
        return False
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    first, second = one[start:], other[start:]
    return first[1:] == second or first == second[1:] or first[1:] == second[1:] or is_swapped(one, other)


def is_swapped(one: str, other: str) -> bool:
    """Tell whether two neighbouring letters changed places."""
    if len(one) != len(other):
        return False
    differing = [position for position, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
    return (
        len(differing) == 2
        and differing[1] == differing[0] + 1
        and one[differing[0]] == other[differing[1]]
        and one[differing[1]] == other[differing[0]]
    )


def shared(wanted: Iterable[str], present: Iterable[str]) -> int:
    """Count the wanted stems that are present, forgiving one slip in words of five letters or more."""
    there = set(present)
    return sum(
        word in there or (len(word) >= 5 and any(len(other) >= 5 and is_near(word, other) for other in there))
        for word in set(wanted)
    )
