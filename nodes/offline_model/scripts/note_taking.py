"""Take notes of a part of a long article: the sentences of each section that weigh most, in order."""

from typing import Any

from toolweave.nodes.offline_model.scripts.article import Article, Part, Sentence, Worth
from toolweave.nodes.offline_model.scripts.weights import weighed

_DEFAULT_WORDS = 1_000
_WORDS_PER_TOKEN = 0.6
_ABOUT = 1.15


def notes_of(article: Article, words: int) -> dict[str, Any]:
    """Give an entry for each heading, as long as the words last; images as they are written.

    A word counts as what a language model reads of it: a character of Chinese is one, a long Russian word three.
    """
    weights = weighed(article)
    left = (words or _DEFAULT_WORDS) * _ABOUT
    chosen: set[int] = set()
    begun: set[int] = set()
    ranked = [(number, sentence) for number, part in enumerate(article.parts) for sentence in _notable(part)]
    ranked.sort(key=lambda one: (not one[1].opens, -weights[one[1].place], one[1].place))
    for number, sentence in ranked:
        frame = (
            0.0
            if number in begun
            else _words_read(f"## {article.parts[number].heading}\n\n\n{_image(number, article)}")
        )
        read = _words_read(f"- {sentence.text}\n") + frame
        if not chosen or read <= left:
            chosen.add(sentence.place)
            begun.add(number)
            left -= read
    entries = [_entry(number, article, chosen) for number in sorted(begun)]
    return {"sections": entries or [{"heading": "", "notes": [article.title or "?"]}]}


def _notable(part: Part) -> list[Sentence]:
    """List whole sentences, or what there is instead; the title is shown besides."""
    own = [sentence for sentence in part.sentences if sentence.place >= 0]
    best = max((sentence.worth for sentence in own), default=Worth.CODE)
    return [sentence for sentence in own if sentence.worth >= min(best, Worth.ITEM)]


def _entry(number: int, article: Article, chosen: set[int]) -> dict[str, Any]:
    part = article.parts[number]
    notes = [sentence.text for sentence in part.sentences if sentence.place in chosen]
    image = _image(number, article)
    return {"heading": part.heading, "notes": [*notes, image] if image else notes}


def _image(number: int, article: Article) -> str:
    return next((f"![{alt}]({caption})" for alt, caption in article.parts[number].images), "")


def _words_read(text: str) -> float:
    plain = len(text.encode("ascii", "ignore"))
    other = len(text.encode("utf-8", "surrogatepass")) - plain
    return (plain / 4 + other / 3) * _WORDS_PER_TOKEN
