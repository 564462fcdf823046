"""Name a section of the script and say what its slide shows, in the article's own words."""

import re
from collections import Counter

from toolweave.nodes.offline_model.scripts.article import Part
from toolweave.nodes.offline_model.scripts.candidates import Group

_LONGEST_TITLE = 60
_LONGEST_WIDE_TITLE = 24
_ALSO = 0.5
_CLAUSE = re.compile(r"\s*[,;:–—.!?…。！？、，；：؟،]+(?:[\"'”’»“)\]」』]*)(?=\s|\Z|[\u3040-\u9fff])")
_QUOTES = "\"'“”„«»「」『』 \u00a0\u202f"
_CREDIT = re.compile(
    r"\s*[([]?(?:(?i:\b(?:photo(?:graph)?|image|picture|foto|bild|credit|crédits?|source|quelle|fuente)s?\b"
    r"(?: credit| by|\s?:))|©|写真[：:/]|图片来源).*\Z"
)


def section_title(group: Group, article_title: str, used: set[str]) -> str:
    """Give the heading that the section begins under, and the one that most else is said of.

    Without one it is the article's title, or how the section begins.
    """
    said: Counter[str] = Counter()
    for number, sentence in group.sentences:
        said[group.parts[number].heading] += len(sentence.text)
    headings = [heading for heading in said if heading]
    most = max(headings[1:], key=lambda heading: said[heading], default="")
    named = headings[:1] + ([most] if most and said[most] >= said[headings[0]] * _ALSO else [])
    together = " · ".join(named)
    wanted = [together] if len(together) <= _LONGEST_TITLE else []
    wanted += named[:1] or [article_title]
    return next((title for title in wanted if title and title not in used), "") or shortened_title(
        group.sentences[0][1].text
    )


def shortened_title(sentence: str) -> str:
    """Give the beginning of a sentence: its first clause if that is short enough, or some words."""
    bare = sentence.strip(_QUOTES)
    wide = sum(character > "\u2e80" for character in bare[:_LONGEST_TITLE]) > _LONGEST_WIDE_TITLE / 2
    longest = _LONGEST_WIDE_TITLE if wide else _LONGEST_TITLE
    ends = [found.start() for found in _CLAUSE.finditer(bare[: longest + 2]) if longest / 4 <= found.start() <= longest]
    if ends:
        return bare[: ends[0]].rstrip(_QUOTES)
    if len(bare) <= longest:
        return bare.rstrip(_QUOTES)
    cut = bare[:longest]
    return (cut if wide or " " not in cut else cut.rsplit(" ", 1)[0]).rstrip(_QUOTES) + "…"


def slide_prompt(group: Group, title: str) -> str:
    """Say what an image of the section shows, or else give its title."""
    numbers = dict.fromkeys(number for number, _ in group.sentences)
    return next((shown for number in numbers if (shown := _shown(group.parts[number]))), title)


def _shown(part: Part) -> str:
    return next((shown for alt, caption in part.images if (shown := _CREDIT.sub("", alt or caption).strip())), "")
