"""Perform the script writer's model tasks: write a script, take notes (A-04).

A script consists of sentences of the article: the first ones of each section, as many as its share of the time allows.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from textwrap import wrap
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from toolweave.nodes.offline_model.clauses import NOT_AFTER_ABBREVIATION
from toolweave.nodes.offline_model.results import NOTICE, content_text
from toolweave.nodes.offline_model.tools import ToolSpec
from toolweave.nodes.spoken_length import spoken_seconds

_WRITE_SCRIPT, _TAKE_NOTES = "write_script", "take_notes"
_NOT_TRANSLATED = f"These are the article's own sentences, not translated. {NOTICE}"
_ARTICLE = re.compile(r"<article>\n(?:# (?P<title>[^\n]*)\n)?(?P<text>.*)</article>", re.DOTALL)
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_CONTINUED = " (continued)"
# Code, rows of tables and images are narrated only where there is too little else.
_NO_PROSE = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^ {0,3}(?P=fence)[^\n]*$|\Z)|^[ \t]*(?:\||!\[)[^\n]*$",
    re.MULTILINE | re.DOTALL,
)
_MIN_TIME_SHARE = 0.5
_PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*+•]|\d{1,3}[.)])\s)")
_MARKDOWN = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\n]*\)|^(?:[-*+•>]|\d{1,3}[.)])\s|(?<! )\*|\*(?! )|[`|]")
_SENTENCE_END = re.compile(rf"{NOT_AFTER_ABBREVIATION}[.!?…؟।][\"'”’»)\]]*\s+|[。！？][”’」』）]*\s*")
_SECONDS = re.compile(r"\b(\d{1,7}) seconds when spoken\b")
_SECTIONS = re.compile(r"\b(\d{1,3})(?: to (\d{1,3}))? sections?\b")
_NOTES_WORDS = re.compile(r"\b(\d{1,7}) words\b")
_DEFAULT_SECONDS, _DEFAULT_SECTIONS, _DEFAULT_WORDS = 180, ("3", "8"), 1_000
_MIN_SECTION_S = 10
# Fewer words fit in languages whose words have many tokens.
_SECONDS_PER_WORD_OF_NOTES = 0.3
_MAX_TITLE_CHARS = 60
_MAX_PIECE_CHARS = 300


@dataclass(frozen=True, slots=True)
class SourceSection:
    """Sentences of the article below one of its headings; the heading may be empty."""

    heading: str
    sentences: list[str]


def script_or_notes_call(
    messages: Sequence[BaseMessage], tools: Sequence[ToolSpec], name: str | None
) -> tuple[str, dict[str, Any]] | None:
    """Return the call with the script or the notes; None if neither is requested, or no article is in the messages."""
    tool = next(
        (tool for tool in tools if tool.name in (_WRITE_SCRIPT, _TAKE_NOTES) and name in (None, tool.name)), None
    )
    texts = [content_text(message.content) for message in messages if isinstance(message, HumanMessage)]
    shown = next((found for text in texts if (found := _ARTICLE.search(text))), None)
    if tool is None or shown is None:
        return None
    prompt = "\n".join(content_text(message.content) for message in messages if isinstance(message, SystemMessage))
    if tool.name == _TAKE_NOTES:
        return tool.name, _notes_arguments(shown["text"], prompt)
    return tool.name, _script_arguments(shown["title"] or "", shown["text"], prompt, tool, refused=len(texts) > 1)


def split_article(text: str, *, everything: bool) -> list[SourceSection]:
    """Split an article at its headings; `everything` keeps text without sentences, too, line by line."""
    opening, *rest = _HEADING.split(text if everything else _NO_PROSE.sub("", text))
    parts = [SourceSection("", _split_sentences(opening, everything))]
    for heading, below in zip(rest[::2], rest[1::2], strict=True):
        parts.append(SourceSection(heading.strip().removesuffix(_CONTINUED), _split_sentences(below, everything)))
    return [part for part in parts if part.sentences]


def _split_sentences(text: str, everything: bool) -> list[str]:
    found: list[str] = []
    for paragraph in text.splitlines() if everything else _PARAGRAPH.split(text):
        bare = " ".join(_MARKDOWN.sub(r"\1", " ".join(paragraph.split())).split())
        *ended, rest = _SENTENCE_END.sub(r"\g<0>\n", f"{bare} ").split("\n")
        found += [*ended, *wrap(rest, _MAX_PIECE_CHARS)] if everything else ended
    return [sentence.strip() for sentence in found if any(map(str.isalnum, sentence))]


def _script_arguments(title: str, text: str, prompt: str, tool: ToolSpec, *, refused: bool) -> dict[str, Any]:
    """Return the script; the speakers take turns, one sentence each."""
    found = _SECONDS.search(prompt)
    seconds = float(found[1]) if found else _DEFAULT_SECONDS
    first, last = found.groups() if (found := _SECTIONS.search(prompt)) else _DEFAULT_SECTIONS
    least, most = int(first), int(last or first)
    parts = split_article(text, everything=refused)
    prose = [sentence for part in parts for sentence in part.sentences]
    if len(prose) < least or spoken_seconds(prose) < _MIN_TIME_SHARE * seconds:
        parts = split_article(text, everything=True)
    title = title or next((part.heading for part in parts if part.heading), "?")
    most = max(least, min(most, int(seconds / _MIN_SECTION_S)))
    sections = _excerpt(_divide_parts(parts or [SourceSection("", [title])], least, most), seconds, opening=1)
    speakers = cycle(_speakers(tool.schema) or [None])
    written = []
    for place, section in enumerate(sections):
        named = section.heading or (_short_title(section.sentences[0]) if place else title)
        narrations = [
            {"text": sentence} if (speaker := next(speakers)) is None else {"text": sentence, "persona_id": speaker}
            for sentence in section.sentences
        ]
        written.append({"title": named, "narrations": narrations, "slide_prompt": named})
    remark = f" {_NOT_TRANSLATED}" if "in this language" in prompt else ""
    return {"title": title, "description": f"{sections[0].sentences[0]}{remark}", "sections": written}


def _divide_parts(parts: Sequence[SourceSection], least: int, most: int) -> list[SourceSection]:
    """Divide the longest parts until there are `least`; join neighbours if there are more than `most`."""
    divided = list(parts)
    while len(divided) < least:
        longest = max(divided, key=lambda part: len(part.sentences))
        half = len(longest.sentences) // 2
        if not half:
            break
        place = divided.index(longest)
        halves = SourceSection(longest.heading, longest.sentences[:half]), SourceSection("", longest.sentences[half:])
        divided[place : place + 1] = halves
    joined: dict[int, SourceSection] = {}
    for place, part in enumerate(divided):
        number = place * most // max(len(divided), most)
        joined.setdefault(number, SourceSection(part.heading, [])).sentences.extend(part.sentences)
    return list(joined.values())


def _excerpt(parts: Sequence[SourceSection], seconds: float, *, opening: int) -> list[SourceSection]:
    """Return the first sentences of each part, at least `opening`, by its share of the time, plus unused time."""
    lengths = [[spoken_seconds([sentence]) for sentence in part.sentences] for part in parts]
    total = sum(map(sum, lengths)) or 1.0
    # One spare second, so that rounding cuts nothing from an article that fits.
    due, used = 1.0, 0.0
    chosen = []
    for part, listed in zip(parts, lengths, strict=True):
        due += sum(listed) * min(1.0, seconds / total)
        sentences: list[str] = []
        for sentence, length in zip(part.sentences, listed, strict=True):
            if len(sentences) < opening or used + length <= due:
                sentences.append(sentence)
                used += length
        chosen.append(SourceSection(part.heading, sentences))
    return [part for part in chosen if part.sentences]


def _speakers(schema: Any) -> list[str]:
    """Return the speakers that the function's schema allows."""
    if not isinstance(schema, Mapping):
        return []
    if isinstance(named := schema.get("persona_id"), Mapping):
        return list(named.get("enum", ()))
    return next(filter(None, map(_speakers, schema.values())), [])


def _short_title(sentence: str) -> str:
    return sentence if len(sentence) <= _MAX_TITLE_CHARS else sentence[:_MAX_TITLE_CHARS].rsplit(" ", 1)[0] + "…"


def _notes_arguments(text: str, prompt: str) -> dict[str, Any]:
    """Return an entry per heading, with its first sentences, within the number of words."""
    found = _NOTES_WORDS.search(prompt)
    seconds = (int(found[1]) if found else _DEFAULT_WORDS) * _SECONDS_PER_WORD_OF_NOTES
    parts = split_article(text, everything=False) or split_article(text, everything=True) or [SourceSection("", ["?"])]
    return {
        "sections": [{"heading": part.heading, "notes": part.sentences} for part in _excerpt(parts, seconds, opening=0)]
    }
