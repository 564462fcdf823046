"""Hold an article as its sentences under their headings, and read it out of a prompt."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from toolweave.nodes.offline_model.scripts.article_lines import CONTINUED, Kind, pieces_of
from toolweave.nodes.offline_model.scripts.openings import is_of_the_page, leans, points_elsewhere
from toolweave.nodes.offline_model.scripts.sentence_ends import is_whole, sentences_of
from toolweave.nodes.offline_model.scripts.spoken_words import words_spoken

OPENS, CLOSES = "<article>", "</article>"
FEWEST_WORDS = 3
MOST_WORDS = 90
_LONGEST_PIECE = 300
_COLONS = (":", "：")


class Worth(IntEnum):
    """Where a text is from; what is less worth is said only where there is nothing better."""

    PROSE = 5
    ITEM = 4
    FRAGMENT = 3
    HEADING = 2
    CODE = 1


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence as it stands in the article; `place` is its number there.

    `opens` is the first of its worth in its section, `begins` the first of its paragraph; `leans` needs the one before
    it, `announces` ends in a colon and needs what follows.
    """

    place: int
    text: str
    worth: Worth
    opens: bool = False
    begins: bool = False
    leans: bool = False
    announces: bool = False


@dataclass(slots=True)
class Part:
    """A section of the article; of its images what is seen, or else the caption."""

    heading: str
    sentences: list[Sentence] = field(default_factory=list)
    images: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Article:
    """An article; the title is empty where the prompt names none."""

    title: str
    parts: Sequence[Part]


def framed_article(prompt: str) -> str | None:
    """Give what stands between the marks of an article; None where there are none."""
    start, end = prompt.find(OPENS), prompt.rfind(CLOSES)
    return prompt[start + len(OPENS) : end].strip("\n") if 0 <= start < end else None


def read_article(markdown: str) -> Article:
    """Read an article as prompts show it: `# title` first, `## heading` lines, images as `![alt](caption)`."""
    first, _, rest = markdown.partition("\n")
    titled = first.startswith("# ")
    title = " ".join(first[2:].split()) if titled else ""
    reader = _Reader()
    for kind, text, alt in pieces_of(rest if titled else markdown):
        reader.take(kind, text, alt)
    if title:
        reader.parts[0].sentences.insert(0, Sentence(-1, title, Worth.HEADING, opens=True))
    return Article(title, reader.parts)


class _Reader:
    """Put the pieces of an article into its parts."""

    def __init__(self) -> None:
        self.parts = [Part("")]
        self._place = 0
        self._captions: set[str] = set()

    def take(self, kind: Kind, text: str, alt: str) -> None:
        part = self.parts[-1]
        if kind == "heading":
            heading = text.removesuffix(CONTINUED)
            if heading != part.heading or not text.endswith(CONTINUED):
                self.parts.append(Part(heading))
                self._add(heading, Worth.HEADING)
        elif kind == "image":
            self._captions.add(text)
            if alt or text:
                part.images.append((alt, text))
                self._add(text or alt, Worth.FRAGMENT)
        elif kind in ("prose", "item"):
            self._paragraph(text, Worth.PROSE if kind == "prose" else Worth.ITEM)
        else:
            self._add(text, Worth.CODE if kind == "code" else Worth.FRAGMENT)

    def _paragraph(self, text: str, worth: Worth) -> None:
        if text in self._captions:
            return
        before = ""
        for sentence in sentences_of(text):
            if not is_of_the_page(sentence):
                self._add(sentence, self._worth(sentence, worth), before)
            before = sentence

    def _worth(self, sentence: str, worth: Worth) -> Worth:
        """Give a sentence what its paragraph is worth if it is one, and can be understood without seeing the page."""
        if not FEWEST_WORDS <= words_spoken(sentence) <= MOST_WORDS or points_elsewhere(sentence):
            return Worth.FRAGMENT
        return worth if is_whole(sentence) and (worth is not Worth.ITEM or self._goes_on_well()) else Worth.FRAGMENT

    def _goes_on_well(self) -> bool:
        """Tell of an item whether it can be said after what precedes it: not if it explains a term.

        What announces a list is said, too, if the list is one of sentences.
        """
        said = self.parts[-1].sentences
        if not said or said[-1].worth is not Worth.FRAGMENT:
            return True
        if said[-1].text.endswith(_COLONS):
            said[-1] = replace(said[-1], worth=Worth.ITEM, announces=True)
        return said[-1].announces or words_spoken(said[-1].text) >= FEWEST_WORDS

    def _add(self, text: str, worth: Worth, before: str = "") -> None:
        said = self.parts[-1].sentences
        for piece in [text] if worth >= Worth.ITEM else _cut(text):
            opens = not any(sentence.worth is worth for sentence in said)
            after = bool(said) and said[-1].announces and worth is Worth.ITEM
            leaning = after or leans(piece, before)
            said.append(Sentence(self._place, piece, worth, opens=opens, begins=not before, leans=leaning))
            self._place += 1


def _cut(text: str) -> list[str]:
    """Cut what is far too long for a sentence, so that a part of it can be said."""
    pieces = [""]
    for word in text.split(" "):
        for part in (word[start : start + _LONGEST_PIECE] for start in range(0, len(word), _LONGEST_PIECE)):
            if len(pieces[-1]) + len(part) >= _LONGEST_PIECE:
                pieces.append("")
            pieces[-1] += f" {part}" if pieces[-1] else part
    return [piece for piece in pieces if any(map(str.isalnum, piece))]
