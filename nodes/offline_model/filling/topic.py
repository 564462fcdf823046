"""Find what a search or a question is about: "Have I anything about horses?" is about horses."""

import re
from collections.abc import Iterator

from toolweave.nodes.offline_model.language.literals import HIDDEN, Literals
from toolweave.nodes.offline_model.language.nouns import CONTAINER, VAGUE
from toolweave.nodes.offline_model.language.patterns import pattern
from toolweave.nodes.offline_model.language.politeness import without_courteous_tail
from toolweave.nodes.offline_model.language.vocabulary import VERBS
from toolweave.nodes.offline_model.language.words import STOP_WORDS, stem, stems, words
from toolweave.nodes.offline_model.tools.tool_nouns import tool_nouns
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

_SPEAKING = (
    r"(?:talks?|is|are|speaks?|deals?|wrote|write|was|were|do|does|did|i|put|noted|has|have|had)?"
    r" ?(?:about|regarding|concerning|with regard to|dealing with)"
)
_HAVING = r"(?:mention(?:s|ing|ed)?|contain(?:s|ing|ed)?|includ(?:es|ing)|match(?:es|ing)?)"
_ABOUT = (
    rf"(?:(?:that |which |who )?{_SPEAKING}|(?:that |which )?(?:is |are )?(?:related|relating|relevant) to"
    rf"|(?:that |which )?{_HAVING}|(?:that )?(?:says?|saying|reads)|(?:any )?mentions? of"
    r"|(?:having |that has )?to do with"
    r"|for the (?:word|term|phrase|text|string)s?|the (?:word|term|phrase|text|keyword|string)s?)"
)
_STATED = pattern(rf".*?\b{_ABOUT}\s*:?\s+(?P<topic>.+)")
_SOUGHT = pattern(r"(?P<where>.{0,80}?)\bfor (?P<topic>.+)")
_FILLER = frozenset(
    words(
        """
        word words term phrase text string keyword contain contains containing include includes including mention
        mentions mentioned about related regarding tell give see look find search overview summary next today's
        currently current available existing listed list number count total full whole complete entire left due supposed
        need needs want far moment soon assigned u going happening scheduled planned empty trying remain remains inside
        have know remember forgot forgotten think recall wondering add added put wrote noted created made
        """
    )
)
_DETERMINERS = frozenset({"my", "the", "a", "an", "for", "about", "our"})
# What a thing is asked for by: part of the question, not of what it is about, unless "about" says so.
_ASPECTS = frozenset({"status", "title", "detail", "priority"})
_TOKEN = re.compile(rf"{HIDDEN}|[^\W_]+(?:['’\-./:][^\W_]+)*")


def topic_stated(text: str) -> str:
    """Give what stands behind "about" and its like; empty when nothing does."""
    match = _STATED.fullmatch(text)
    return match["topic"] if match else ""


def topic_of(text: str, tool: ToolSpec, literals: Literals) -> str:
    """Give the phrase that a reading request is about; empty when it is about everything."""
    text = without_courteous_tail(text)
    quoted = literals.in_text(text, "quoted")
    if quoted:
        return quoted[0][1].value
    stated = _trimmed(topic_stated(text), tool, frozenset())
    if stated:
        return literals.restore(stated)
    trimmed = (_trimmed(part, tool, _ASPECTS) for part in _candidates(text, tool))
    return literals.restore(next((topic for topic in trimmed if topic), ""))


def _candidates(text: str, tool: ToolSpec) -> Iterator[str]:
    sought = _SOUGHT.fullmatch(text)
    if sought and _only_names_the_place(sought["where"], tool):
        yield sought["topic"]
    things = rf"(?:{tool_nouns(tool)}|{VAGUE}|{CONTAINER})"
    for form in (
        rf".*?\b{things} (?:for|on|with|of|called|named|titled|to) (?!me\b|us\b|do\b)(?P<topic>.+)",
        rf".*?\b{things}\s*[:?]\s*(?P<topic>.+)",
    ):
        match = pattern(form).fullmatch(text)
        if match:
            yield match["topic"]
    yield text


def _only_names_the_place(where: str, tool: ToolSpec) -> bool:
    """Tell whether the words before "for" only say where to look: "search the knowledge graph for …"."""
    known = {*stems(tool.description), *(stem(word) for word in (*_FILLER, *tool.nouns_and_synonyms))}
    return set(stems(where)) <= known


def _trimmed(text: str, tool: ToolSpec, aspects: frozenset[str]) -> str:
    """Cut from both ends the words that carry no content of their own."""
    noun = tool_nouns(tool)
    things = pattern(rf"(?:{noun}|{CONTAINER}|{VAGUE})")
    own = {stem(word) for word in (*tool.nouns, tool.verb) if word} | aspects
    filed = rf"\b(?:on|in|from|among|through|across) (?:my|the|our|your|all) (?:[\w-]+ )??(?:{CONTAINER}|{noun})\b"
    text = pattern(filed).sub(" ", text)
    tokens = list(_TOKEN.finditer(text))
    low = [token.group().lower().replace("’", "'") for token in tokens]
    empty = [word in STOP_WORDS or word in _FILLER or bool(things.fullmatch(word)) or stem(word) in own for word in low]
    article = next((place for place, word in enumerate(low) if word in _DETERMINERS), len(tokens))
    first, last = 0, len(tokens)
    while first < last and (empty[first] or (first < min(article, last - 1) and _is_verb(low[first]))):
        first += 1
    while last > first and empty[last - 1]:
        last -= 1
    return text[tokens[first].start() : tokens[last - 1].end()] if first < last else ""


def _is_verb(word: str) -> bool:
    return word in VERBS or word.removesuffix("ing") in VERBS
