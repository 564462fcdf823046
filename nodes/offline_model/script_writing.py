"""Write a script when it is requested as a function call: chosen sentences of the article, in its order (A-04).

A word counts the more the oftener the article uses it, and twice if it stands in the title or the section's heading.
A sentence weighs what its words count, by the root of their number. What opens its section weighs more; what needs the
sentence before it, a question, and an item of a list weigh less.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from toolweave.nodes.offline_model.article import (
    Article,
    Part,
    Sentence,
    Worth,
    framed_article,
    read_article,
    spoken_words,
)
from toolweave.nodes.offline_model.english import STOP_WORDS
from toolweave.nodes.offline_model.results import NOTICE, text_of
from toolweave.nodes.offline_model.tools import ToolSpec, resolve

_WRITE_SCRIPT, _TAKE_NOTES = "write_script", "take_notes"
_NOT_TRANSLATED = f"These are the article's own sentences, not translated. {NOTICE}"
# Shares of the length that whole sentences have to fill, else captions, tables and code are narrated, too.
_ENOUGH, _ENOUGH_AFTER_REFUSAL = 0.5, 0.98
# What is hardly longer than the length is narrated whole.
_FULL = 1.05
_MOST_GROUPS = 200
_LONGEST_DESCRIPTION = 220
_SPACED_ENDS = tuple(".!?…؟۔।\"'”’»«“›‹)")

_SECONDS = re.compile(r"\b(\d{1,7}) seconds when spoken\b")
_WORDS_PER_SECOND = 2.5
_SECTIONS = re.compile(r"\b(\d{1,3})(?: to (\d{1,3}))? sections?\b")
_NOTES_WORDS = re.compile(r"\b(\d{1,7}) words\b")
_DEFAULT_SECONDS, _DEFAULT_SECTIONS, _DEFAULT_WORDS = 180, (3, 8), 1_000
_TOKENS_PER_WORD = 1.9
_ENTRY_TOKENS = 4

_TELLING_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_RUN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]+")


def written_call(
    messages: Sequence[BaseMessage], tools: Sequence[ToolSpec], name: str | None
) -> tuple[str, dict[str, Any]] | None:
    """Return the call with the script or the notes; None when neither is requested, or no article is shown."""
    tool = next(
        (tool for tool in tools if tool.name in (_WRITE_SCRIPT, _TAKE_NOTES) and name in (None, tool.name)), None
    )
    texts = [text_of(message.content) for message in messages if isinstance(message, HumanMessage)]
    shown = next((framed for text in texts if (framed := framed_article(text)) is not None), None)
    if tool is None or shown is None:
        return None
    prompt = "\n".join(text_of(message.content) for message in messages if isinstance(message, SystemMessage))
    article = read_article(shown)
    if tool.name == _TAKE_NOTES:
        return tool.name, _notes(article, prompt)
    return tool.name, _script(article, prompt, tool, _ENOUGH if len(texts) == 1 else _ENOUGH_AFTER_REFUSAL)


def _script(article: Article, prompt: str, tool: ToolSpec, enough: float) -> dict[str, Any]:
    """Write the script; the speakers take turns, a sentence each."""
    found = _SECONDS.search(prompt)
    length = _WORDS_PER_SECOND * (int(found[1]) if found else _DEFAULT_SECONDS)
    sections = _SECTIONS.search(prompt)
    least, most = (int(sections[1]), int(sections[2] or sections[1])) if sections else _DEFAULT_SECTIONS
    groups = _groups(article, length, enough, max(least, 1), max(most, least, 1))
    chosen = _Selection(groups, _weights(article), length, least).made()
    texts = [sentence.text for group in chosen for _, sentence in group.sentences]
    heading = next((part.heading for part in article.parts if part.heading), "")
    title = article.title or heading or _shortened_title(texts[0] if texts else "?")
    speakers, turns, used = _speakers(tool), count(), set[str]()
    written = []
    for group in chosen:
        named = _section_title(group, title, used)
        used.add(named)
        narrations = [
            {"text": sentence.text} | ({"persona_id": speakers[next(turns) % len(speakers)]} if speakers else {})
            for _, sentence in group.sentences
        ]
        written.append({"title": named, "narrations": narrations, "slide_prompt": _slide_prompt(group, named)})
    prose = [one.text for part in article.parts for one in part.sentences if one.worth is Worth.PROSE] or texts
    both = (" " if prose and prose[0].endswith(_SPACED_ENDS) else "").join(prose[:2])
    described = both if len(both) <= _LONGEST_DESCRIPTION else prose[0]
    if "in this language" in prompt:
        described = f"{described or title} {_NOT_TRANSLATED}"
    return {"title": title, "description": described or title, "sections": written}


def _speakers(tool: ToolSpec) -> list[str]:
    """List the speakers that the function's schema allows."""
    schema: Any = tool.schema
    for name in ("sections", "narrations", "persona_id"):
        properties = schema.get("properties")
        schema = resolve(properties.get(name), tool.schema) if isinstance(properties, Mapping) else {}
        if name == "persona_id":
            return [one for one in schema.get("enum") or () if isinstance(one, str)]
        schema = resolve(schema.get("items"), tool.schema)
    return []


# Groups of sentences, one for each section


@dataclass(frozen=True, slots=True)
class Group:
    """What one section of the script is made of: sentences in order, each with the number of its part among `parts`."""

    parts: tuple[Part, ...]
    sentences: tuple[tuple[int, Sentence], ...]


def _groups(article: Article, length: float, enough: float, least: int, most: int) -> list[Group]:
    """Divide what can be narrated into `least` to `most` groups in the article's order, or fewer."""
    groups: list[Group] = []
    for worth in (Worth.ITEM, Worth.FRAGMENT, Worth.HEADING, Worth.CODE):
        picked = [tuple((0, one) for one in part.sentences if one.worth >= worth) for part in article.parts]
        groups = [Group((part,), listed) for part, listed in zip(article.parts, picked, strict=True) if listed]
        texts = [sentence.text for group in groups for _, sentence in group.sentences]
        if len(texts) >= least and sum(map(spoken_words, texts)) >= enough * length:
            break
    if len(groups) > _MOST_GROUPS:
        step = -(-len(groups) // _MOST_GROUPS)
        groups = [_joined(groups[start : start + step]) for start in range(0, len(groups), step)]
    while len(groups) > most:
        sizes = [len(one.sentences) + len(other.sentences) for one, other in pairwise(groups)]
        place = sizes.index(min(sizes))
        groups[place : place + 2] = [_joined(groups[place : place + 2])]
    while 0 < len(groups) < least:
        longest = max(range(len(groups)), key=lambda place: len(groups[place].sentences))
        if len(groups[longest].sentences) == 1:
            break
        groups[longest : longest + 1] = _halves(groups[longest])
    return groups


def _joined(groups: Sequence[Group]) -> Group:
    parts: list[Part] = []
    sentences: list[tuple[int, Sentence]] = []
    for group in groups:
        sentences += [(number + len(parts), sentence) for number, sentence in group.sentences]
        parts += group.parts
    return Group(tuple(parts), tuple(sentences))


def _halves(group: Group) -> list[Group]:
    """Divide a group near its middle: between paragraphs, or else before a sentence that can stand alone."""
    size = len(group.sentences)
    places = sorted(range(1, size), key=lambda place: abs(place - size / 2))
    near = places[: max(size // 2, 1)]
    alone = [place for place in near if not group.sentences[place][1].leans]
    cut = next((place for place in alone if group.sentences[place][1].begins), (alone or near)[0])
    return [Group(group.parts, group.sentences[:cut]), Group(group.parts, group.sentences[cut:])]


class _Selection:
    """Select sentences until the time is full: one that opens each group, then those that weigh most."""

    def __init__(self, groups: Sequence[Group], weights: Mapping[int, float], length: float, least: int) -> None:
        self._groups, self._weights, self._least = groups, weights, least
        sentences = [sentence for group in groups for _, sentence in group.sentences]
        self._shares = {one.place: spoken_words(one.text) / length for one in sentences}
        self._left = 1.0
        self._places: set[int] = set()

    def made(self) -> list[Group]:
        """Return the groups with the selected sentences only, without those that have none."""
        if sum(self._shares.values()) <= _FULL:
            return list(self._groups)
        self._take_leads()
        self._take_weightiest()
        picked = (
            Group(group.parts, tuple(one for one in group.sentences if one[1].place in self._places))
            for group in self._groups
        )
        return [group for group in picked if group.sentences]

    def _take_leads(self) -> None:
        """Return every group one sentence, the first and the weightiest groups before the others."""
        totals = [sum(self._weights[one.place] for _, one in group.sentences) for group in self._groups]
        ranked = sorted(range(len(self._groups)), key=lambda number: (number > 0, -totals[number]))
        for taken, number in enumerate(ranked):
            lead = self._lead(self._groups[number])
            if taken < self._least or self._shares[lead.place] <= self._left:
                self._take([lead])

    def _lead(self, group: Group) -> Sentence:
        """Find what can open a group: early, understandable alone, and short enough to leave room for the others."""
        listed = [sentence for _, sentence in group.sentences]
        short = [sentence for sentence in listed if self._shares[sentence.place] <= 1.5 / len(self._groups)]
        alone = [sentence for sentence in short if not sentence.leans]
        opening = next((sentence for sentence in alone if sentence.opens), None)
        return opening or next(iter(alone or short), min(listed, key=lambda sentence: self._shares[sentence.place]))

    def _take_weightiest(self) -> None:
        before: dict[int, Sentence] = {}
        for group in self._groups:
            for (part, sentence), (next_part, following) in pairwise(group.sentences):
                if part == next_part:
                    before[following.place] = sentence
        sentences = [sentence for group in self._groups for _, sentence in group.sentences]
        for sentence in sorted(sentences, key=lambda one: (-self._weights[one.place], one.place)):
            needed: list[Sentence] = []
            one: Sentence | None = sentence
            while one is not None and one.place not in self._places:
                needed.append(one)
                one = before.get(one.place) if one.leans else None
            if needed and sum(self._shares[one.place] for one in needed) <= self._left:
                self._take(needed)

    def _take(self, sentences: Sequence[Sentence]) -> None:
        for sentence in sentences:
            self._places.add(sentence.place)
            self._left -= self._shares[sentence.place]


def _weights(article: Article) -> dict[int, float]:
    """Return the weight of every sentence by its place."""
    sentences = [one for part in article.parts for one in part.sentences if one.worth >= Worth.FRAGMENT]
    words = {sentence.place: _telling_words(sentence.text) for sentence in sentences}
    counts = Counter(word for listed in words.values() for word in listed)
    found_in = Counter(word for listed in words.values() for word in set(listed))
    most = len(words) / 6 if len(words) >= 30 else len(words)
    weights: dict[int, float] = {}
    for part in article.parts:
        named = {*_telling_words(article.title), *_telling_words(part.heading)}
        for one in part.sentences:
            listed = words.get(one.place, [])
            total = sum(
                math.log1p(counts[word]) * (2 if word in named else 1) for word in set(listed) if found_in[word] <= most
            )
            factor = 1.5 if one.opens and one.worth is Worth.PROSE else 1.0
            factor *= 0.7 ** (one.leans + (one.worth is Worth.ITEM)) * (
                0.8 if one.text.endswith(("?", "？", "؟")) else 1
            )
            weights[one.place] = 0.0 if one.announces else factor * (0.1 + total) / math.sqrt(len(listed) + 2)
    return weights


def _telling_words(text: str) -> list[str]:
    """List the longer words of a text in lower case; of Chinese and Japanese, every two neighbouring characters."""
    pairs = [run[0][start : start + 2] for run in _RUN.finditer(text) for start in range(len(run[0]) - 1)]
    words = (found[0].lower() for found in _TELLING_WORD.finditer(_RUN.sub(" ", text)))
    return [*pairs, *(word for word in words if word not in STOP_WORDS and (len(word) > 3 or not word.isascii()))]


# Titles and notes

_LONGEST_TITLE, _LONGEST_WIDE_TITLE = 60, 24
_CLAUSE = re.compile(r"\s*[,;:–—.!?…。！？、，；：؟،]+(?:[\"'”’»“)\]」』]*)(?=\s|\Z|[\u3040-\u9fff])")
_QUOTES = "\"'“”„«»「」『』 \u00a0\u202f"
_CREDIT = re.compile(
    r"\s*[([]?(?:(?i:\b(?:photo(?:graph)?|image|picture|foto|bild|credit|crédits?|source|quelle|fuente)s?\b"
    r"(?: credit| by|\s?:))|©|写真[：:/]|图片来源).*\Z"
)


def _section_title(group: Group, article_title: str, used: set[str]) -> str:
    """Return the headings that most is narrated of, else the article's title, else how the section begins."""
    lengths: Counter[str] = Counter()
    for number, sentence in group.sentences:
        lengths[group.parts[number].heading] += len(sentence.text)
    headings = [heading for heading in lengths if heading]
    most = max(headings[1:], key=lambda heading: lengths[heading], default="")
    named = headings[:1] + ([most] if most and lengths[most] * 2 >= lengths[headings[0]] else [])
    together = " · ".join(named)
    wanted = [together] if len(together) <= _LONGEST_TITLE else []
    wanted += named[:1] or [article_title]
    fresh = next((title for title in wanted if title and title not in used), "")
    return fresh or _shortened_title(group.sentences[0][1].text)


def _shortened_title(sentence: str) -> str:
    """Return the beginning of a sentence: its first clause if that is short enough, or some words."""
    bare = sentence.strip(_QUOTES)
    wide = sum(character > "\u2e80" for character in bare[:_LONGEST_TITLE]) > _LONGEST_WIDE_TITLE / 2
    longest = _LONGEST_WIDE_TITLE if wide else _LONGEST_TITLE
    ends = [found.start() for found in _CLAUSE.finditer(bare[: longest + 2]) if longest / 4 <= found.start() <= longest]
    if ends or len(bare) <= longest:
        return bare[: ends[0] if ends else None].rstrip(_QUOTES)
    cut = bare[:longest]
    return (cut if wide or " " not in cut else cut.rsplit(" ", 1)[0]).rstrip(_QUOTES) + "…"


def _slide_prompt(group: Group, title: str) -> str:
    """Say what an image of the section shows, or else give its title."""
    images = (
        image
        for number in dict.fromkeys(number for number, _ in group.sentences)
        for image in group.parts[number].images
    )
    return next((shown for alt, caption in images if (shown := _CREDIT.sub("", alt or caption).strip())), title)


def _notes(article: Article, prompt: str) -> dict[str, Any]:
    """Return an entry for each heading, with the weightiest sentences as long as the words last, and its image."""
    weights = _weights(article)
    found = _NOTES_WORDS.search(prompt)
    left = (int(found[1]) if found else _DEFAULT_WORDS) * _TOKENS_PER_WORD
    chosen: set[int] = set()
    begun: set[int] = set()
    ranked = [(number, one) for number, part in enumerate(article.parts) for one in part.sentences if one.place >= 0]
    best = max((one.worth for _, one in ranked), default=Worth.CODE)
    ranked = [(number, one) for number, one in ranked if one.worth >= min(best, Worth.ITEM)]
    for number, sentence in sorted(ranked, key=lambda one: (not one[1].opens, -weights[one[1].place], one[1].place)):
        frame = 0 if number in begun else _tokens(article.parts[number].heading + _image(article.parts[number]))
        tokens = _tokens(sentence.text) + frame
        if not chosen or tokens <= left:
            chosen.add(sentence.place)
            begun.add(number)
            left -= tokens
    entries = []
    for number in sorted(begun):
        part = article.parts[number]
        notes = [*(one.text for one in part.sentences if one.place in chosen), *filter(None, [_image(part)])]
        entries.append({"heading": part.heading, "notes": notes})
    return {"sections": entries or [{"heading": "", "notes": [article.title or "?"]}]}


def _tokens(text: str) -> float:
    """Estimate the tokens of an entry: four plain characters each, or three bytes of other ones."""
    plain = len(text.encode("ascii", "ignore"))
    return plain / 4 + (len(text.encode("utf-8", "surrogatepass")) - plain) / 3 + _ENTRY_TOKENS


def _image(part: Part) -> str:
    return next((f"![{alt}]({caption})" for alt, caption in part.images), "")
