"""Do what the script writer wants of a model: fetch a page with tools, write a script, take notes (A-04).

Fetching is the task when the system prompt speaks of fetching a page with tools, the message is short and has one URL,
and a tool takes a URL: the tools are tried one after the other, until one of them brought content.

A script consists of chosen sentences of the article, in its order. A word counts the more the oftener the article uses
it, and twice if it stands in the title or the section's heading. A sentence weighs what its words count, by the root of
their number. What opens its section weighs more; what needs the sentence before it, a question, and an item of a list
weigh less.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import count, groupby, pairwise
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from toolweave.nodes.offline_model.article import Article, Part, Sentence, Worth, framed_article, read_article
from toolweave.nodes.offline_model.english import STOP_WORDS, words
from toolweave.nodes.offline_model.results import NOTICE, Reply, ToolResult, Turn, call_key, shortened, text_of
from toolweave.nodes.offline_model.tools import (
    Parameter,
    ToolSpec,
    made_up_value,
    name_words,
    wrong_parameters,
)
from toolweave.nodes.spoken_length import spoken_seconds

_MOST_CALLS = 8
_URL = re.compile(r"https?://[^\s<>\"'“”]+")
_URL_AT_END = re.compile(r":\s+(https?://\S+)\s*\Z")
_MOST_WORDS = 20
_TASK = re.compile(r"(?=.*\bfetch)(?=.*\bpages?\b)(?=.*\btools?\b)", re.IGNORECASE | re.DOTALL)
_START = "start_index"
_GOES_ON = re.compile(rf"\b{_START} of (\d{{1,9}})\b")
_IS_KEPT = re.compile(r"\bwhole is kept\b", re.IGNORECASE)
_FEWEST_LETTERS = 40
_URL_NAMES = ("url", "urls", "uri", "link", "href", "address", "website")
# Words in the name of a tool that fetches a page, the most fitting first, and of one that does something else.
_FETCHING = ("scrape", "fetch", "read", "markdown", "extract", "get", "crawl", "retrieve", "load", "visit", "open")
_NOT_FETCHING = frozenset(
    words(
        "map search find list screenshot status check batch agent post create add update delete upload submit send save"
    )
)
_DESCRIBED = re.compile(
    r"\b(?:fetch|scrape|read|retrieve|extract|crawl|download|get)\w*\b.{0,60}\b(?:pages?|urls?|websites?|content|web)\b",
    re.IGNORECASE | re.DOTALL,
)
_PREFERRED: dict[str, Any] = {
    "formats": ["markdown"],
    **dict.fromkeys(("format", "output_format"), "markdown"),
    **dict.fromkeys(("onlyMainContent", "only_main_content"), True),
}
_ASKING = ("prompt", "query", "question", "instruction", "instructions", "objective", "goal", "task")
_INSTRUCTION = "Give the whole text of the page as markdown."


def next_fetch(messages: Sequence[BaseMessage], turn: Turn, tools: Sequence[ToolSpec], today: date) -> Reply | None:
    """Return the next call or the last words of the fetching; None when fetching a page is not the task."""
    url = _task(messages, turn)
    if url is None:
        return None
    able = sorted((tool for tool in tools if _rank(tool) < math.inf), key=_rank)
    for tool in able:
        arguments = _arguments(tool, url, today)
        given = [result for result in turn.results.values() if result.name == tool.name]
        if not given and len(turn.results) < _MOST_CALLS:
            return Reply(calls=((tool.name, arguments),))
        if given and given[0].ok and sum(map(str.isalnum, given[0].text)) >= _FEWEST_LETTERS:
            rest = _next_piece(tool, {**arguments, **given[-1].arguments}, given[-1], turn)
            return rest or Reply(f"The page is there: {tool.name} gave it.\n{NOTICE}")
    if not able:
        return Reply(f"I could not fetch {url}: none of my tools takes the URL of a page.\n{NOTICE}")
    problems = (
        f"{one.name}: {shortened(one.problem.strip()) or 'it gave no content'}" for one in turn.results.values()
    )
    return Reply(f"I could not fetch {url}. {'; '.join(dict.fromkeys(problems))}\n{NOTICE}")


def _task(messages: Sequence[BaseMessage], turn: Turn) -> str | None:
    prompt = next((text_of(message.content) for message in messages if isinstance(message, SystemMessage)), "")
    urls = dict.fromkeys(_URL.findall(turn.text))
    if not _TASK.match(prompt[:600]) or len(urls) != 1 or len(turn.text.split()) > _MOST_WORDS:
        return None
    named = _URL_AT_END.search(turn.text)
    return named[1] if named else next(iter(urls)).rstrip(".,;:!?)]}")


def _next_piece(tool: ToolSpec, arguments: Mapping[str, Any], last: ToolResult, turn: Turn) -> Reply | None:
    """Return the call for the piece that follows the last one of a page that a tool gives in pieces."""
    end = last.text[-1_000:]
    found = None if _IS_KEPT.search(end) else _GOES_ON.search(end)
    if found is None or not any(one.name == _START for one in tool.parameters):
        return None
    call = tool.name, {**arguments, _START: int(found[1])}
    made = call_key(*call) in turn.results or len(turn.results) >= _MOST_CALLS
    return None if made else Reply(calls=(call,))


def _rank(tool: ToolSpec) -> float:
    """Return the place of a tool among those that fetch a page by its URL, infinite for a tool that does not."""
    named = name_words(tool.name)
    fitting = [place for place, word in enumerate(_FETCHING) if word in named]
    if _url_parameter(tool) is None or _NOT_FETCHING & {*named}:
        return math.inf
    return min(fitting, default=len(_FETCHING) if _DESCRIBED.search(tool.description[:300]) else math.inf)


def _arguments(tool: ToolSpec, url: str, today: date) -> dict[str, Any]:
    """Fill the URL, what says that markdown is wanted, and what else is required."""
    place = _url_parameter(tool)
    arguments: dict[str, Any] = {}
    for parameter in tool.parameters:
        if parameter is place:
            arguments[parameter.name] = [url] if parameter.kind == "array" else url
        elif parameter.name in _PREFERRED:
            arguments[parameter.name] = _PREFERRED[parameter.name]
        elif parameter.required:
            asks = parameter.name.lower() in _ASKING and not parameter.choices
            arguments[parameter.name] = _INSTRUCTION if asks else made_up_value(parameter, tool.schema, url, today)
    required = {parameter.name for parameter in tool.parameters if parameter.required}
    refused = wrong_parameters(tool.schema, arguments) - required
    return {name: value for name, value in arguments.items() if name not in refused}


def _url_parameter(tool: ToolSpec) -> Parameter | None:
    """Find the parameter that takes the address: a required one before others, a text before a list."""
    found = [
        parameter
        for parameter in tool.parameters
        if parameter.kind in ("string", "array", "any")
        and (parameter.name.lower() in _URL_NAMES or (parameter.role == "url" and parameter.kind == "string"))
    ]
    return min(found, key=lambda one: (not one.required, one.kind == "array"), default=None)


_WRITE_SCRIPT, _TAKE_NOTES = "write_script", "take_notes"
_NOT_TRANSLATED = f"These are the article's own sentences, not translated. {NOTICE}"
# Shares of the length that whole sentences have to fill, else captions, tables and code are narrated, too.
_ENOUGH, _ENOUGH_AFTER_REFUSAL = 0.5, 0.98
# What is hardly longer than the length is narrated whole.
_FULL = 1.05
_LONGEST_DESCRIPTION = 220
_SPACED_ENDS = tuple(".!?…؟۔।\"'”’»«“›‹)")
_SECONDS = re.compile(r"\b(\d{1,7}) seconds when spoken\b")
_SECTIONS = re.compile(r"\b(\d{1,3})(?: to (\d{1,3}))? sections?\b")
_NOTES_WORDS = re.compile(r"\b(\d{1,7}) words\b")
_DEFAULT_SECONDS, _DEFAULT_SECTIONS, _DEFAULT_WORDS = 180, (3, 8), 1_000
# Of languages whose words are long in tokens, fewer words have room.
_SECONDS_PER_WORD_OF_NOTES = 0.3
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
    length = float(found[1]) if found else _DEFAULT_SECONDS
    sections = _SECTIONS.search(prompt)
    least, most = (int(sections[1]), int(sections[2] or sections[1])) if sections else _DEFAULT_SECTIONS
    groups = _groups(article, enough * length, max(least, 1), max(most, least, 1))
    chosen = _selected(groups, _weights(article), length, least)
    texts = [sentence.text for group in chosen for sentence in group.sentences]
    heading = next((part.heading for part in article.parts if part.heading), "")
    title = article.title or heading or _shortened_title(texts[0] if texts else "?")
    speakers, turns, used = _speakers(tool.schema), count(), set[str]()
    written = []
    for group in chosen:
        named = _section_title(group, title, used)
        used.add(named)
        narrations = [
            {"text": sentence.text} | ({"persona_id": speakers[next(turns) % len(speakers)]} if speakers else {})
            for sentence in group.sentences
        ]
        written.append({"title": named, "narrations": narrations, "slide_prompt": _slide_prompt(group, named)})
    prose = [one.text for part in article.parts for one in part.sentences if one.worth is Worth.PROSE] or texts
    both = (" " if prose and prose[0].endswith(_SPACED_ENDS) else "").join(prose[:2])
    described = both if len(both) <= _LONGEST_DESCRIPTION else prose[0]
    if "in this language" in prompt:
        described = f"{described or title} {_NOT_TRANSLATED}"
    return {"title": title, "description": described or title, "sections": written}


def _speakers(schema: Any) -> list[str]:
    """List the speakers that the function's schema allows."""
    if not isinstance(schema, Mapping):
        return []
    if isinstance(named := schema.get("persona_id"), Mapping):
        return list(named.get("enum", ()))
    return next(filter(None, map(_speakers, schema.values())), [])


# Groups of sentences, one for each section


@dataclass(frozen=True, slots=True)
class Group:
    """What one section of the script is made of: sentences in order, and the parts of the article they are from."""

    parts: tuple[Part, ...]
    sentences: tuple[Sentence, ...]


def _groups(article: Article, enough: float, least: int, most: int) -> list[Group]:
    """Divide what can be narrated into `least` to `most` groups in the article's order, or fewer."""
    groups: list[Group] = []
    for worth in (Worth.ITEM, Worth.FRAGMENT, Worth.HEADING, Worth.CODE):
        picked = [tuple(one for one in part.sentences if one.worth >= worth) for part in article.parts]
        groups = [Group((part,), listed) for part, listed in zip(article.parts, picked, strict=True) if listed]
        texts = [sentence.text for group in groups for sentence in group.sentences]
        if len(texts) >= least and spoken_seconds(texts) >= enough:
            break
    if len(groups) > most:
        groups = _joined(groups, most)
    while 0 < len(groups) < least:
        longest = max(range(len(groups)), key=lambda place: len(groups[place].sentences))
        if len(groups[longest].sentences) == 1:
            break
        groups[longest : longest + 1] = _halves(groups[longest])
    return groups


def _joined(groups: Sequence[Group], most: int) -> list[Group]:
    """Join neighbours to `most` groups of about as many sentences."""
    total, before = sum(len(group.sentences) for group in groups), 0
    places = []
    for group in groups:
        places.append(before * most // total)
        before += len(group.sentences)
    joined = []
    for _, near in groupby(zip(places, groups, strict=True), key=lambda one: one[0]):
        listed = [group for _, group in near]
        parts = tuple(part for group in listed for part in group.parts)
        joined.append(Group(parts, tuple(one for group in listed for one in group.sentences)))
    return joined


def _halves(group: Group) -> list[Group]:
    """Divide a group near its middle, if possible before a sentence that can stand alone."""
    size = len(group.sentences)
    near = range(1 + size // 4, size - size // 4)
    cut = min(near, key=lambda place: (group.sentences[place].leans, abs(place - size / 2)))
    return [Group(group.parts, group.sentences[:cut]), Group(group.parts, group.sentences[cut:])]


def _selected(groups: Sequence[Group], weights: Mapping[int, float], length: float, least: int) -> list[Group]:
    """Select sentences until the time is full: one that opens each group, then those that weigh most."""
    listed = [sentence for group in groups for sentence in group.sentences]
    seconds = {one.place: spoken_seconds([one.text]) for one in listed}
    if sum(seconds.values()) <= _FULL * length:
        return list(groups)
    chosen: set[int] = set()
    totals = [sum(weights[one.place] for one in group.sentences) for group in groups]
    for taken, number in enumerate(sorted(range(len(groups)), key=lambda number: (number > 0, -totals[number]))):
        lead = _lead(groups[number].sentences, seconds, 1.5 * length / len(groups))
        if taken < least or seconds[lead.place] <= length:
            chosen.add(lead.place)
            length -= seconds[lead.place]
    before = {following.place: sentence for group in groups for sentence, following in pairwise(group.sentences)}
    for sentence in sorted(listed, key=lambda one: (-weights[one.place], one.place)):
        needed: set[int] = set()
        one: Sentence | None = sentence
        while one is not None and one.place not in chosen:
            needed.add(one.place)
            one = before.get(one.place) if one.leans else None
        if sum(seconds[place] for place in needed) <= length:
            chosen |= needed
            length -= sum(seconds[place] for place in needed)
    picked = (Group(group.parts, tuple(one for one in group.sentences if one.place in chosen)) for group in groups)
    return [group for group in picked if group.sentences]


def _lead(sentences: Sequence[Sentence], seconds: Mapping[int, float], room: float) -> Sentence:
    """Find what can open a group: early, understandable alone, and short enough to leave room for the others."""
    short = [sentence for sentence in sentences if seconds[sentence.place] <= room]
    alone = (sentence for sentence in short if not sentence.leans)
    return next(alone, None) or next(iter(short), min(sentences, key=lambda one: seconds[one.place]))


def _weights(article: Article) -> dict[int, float]:
    """Return the weight of every sentence by its place."""
    sentences = [one for part in article.parts for one in part.sentences if one.worth >= Worth.FRAGMENT]
    words = {sentence.place: _telling_words(sentence.text) for sentence in sentences}
    counts = Counter(word for listed in words.values() for word in listed)
    weights: dict[int, float] = {}
    for part in article.parts:
        named = {*_telling_words(article.title), *_telling_words(part.heading)}
        for one in part.sentences:
            listed = words.get(one.place, [])
            total = sum(math.log1p(counts[word]) * (2 if word in named else 1) for word in set(listed))
            factor = 1.5 if one.opens and one.worth is Worth.PROSE else 1.0
            factor *= 0.7 ** (one.leans + (one.worth is Worth.ITEM) + one.text.endswith(("?", "？", "؟")))
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


def _section_title(group: Group, article_title: str, used: Iterable[str]) -> str:
    """Return the first heading with the last one, else the article's title, else how the section begins."""
    headings = [part.heading for part in group.parts if part.heading]
    together = " · ".join(dict.fromkeys(headings[:1] + headings[-1:]))
    wanted = [*([together] if len(together) <= _LONGEST_TITLE else []), *headings[:1], article_title]
    fresh = next((title for title in wanted if title and title not in used), "")
    return fresh or _shortened_title(group.sentences[0].text)


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
    images = (image for part in group.parts for image in part.images)
    return next((shown for alt, caption in images if (shown := _CREDIT.sub("", alt or caption).strip())), title)


def _notes(article: Article, prompt: str) -> dict[str, Any]:
    """Return an entry for each heading, with the weightiest sentences as long as the words last, and its image."""
    found = _NOTES_WORDS.search(prompt)
    length = (int(found[1]) if found else _DEFAULT_WORDS) * _SECONDS_PER_WORD_OF_NOTES
    entries = [
        {"heading": part.heading, "notes": [*(one.text for one in group.sentences), *filter(None, [_image(part)])]}
        for group in _selected(_groups(article, 0.0, 1, len(article.parts)), _weights(article), length, 1)
        for part in group.parts
    ]
    return {"sections": entries or [{"heading": "", "notes": [article.title or "?"]}]}


def _image(part: Part) -> str:
    return next((f"![{alt}]({caption})" for alt, caption in part.images), "")
