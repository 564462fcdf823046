"""Weigh an article's sentences: how much of what the article is about each one says.

A word tells the more the oftener the article uses it (the logarithm of its count), twice as much if it stands in the
title or the section's heading; words of fewer than four letters, and those of every sixth sentence in a longer article,
tell nothing. A sentence weighs what its words tell, by the root of their number, so that a long one has no great
advantage. What opens its section weighs one and a half times as much; what needs the sentence before it, what asks a
question, and what stands in a list weighs less. What announces a list weighs nothing by itself.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from toolweave.nodes.offline_model.language.words import STOP_WORDS
from toolweave.nodes.offline_model.scripts.article import Article, Sentence, Worth
from toolweave.nodes.offline_model.scripts.spoken_words import telling_words

_SHORTEST_WORD = 4
_EVERYWHERE = 1 / 6
_LONGER = 30
_OPENS, _LEANS, _ASKS, _LISTED = 1.5, 0.7, 0.8, 0.7


def weighed(article: Article) -> dict[int, float]:
    """Give the weight of every sentence by its place."""
    spoken = [sentence for part in article.parts for sentence in part.sentences if sentence.worth >= Worth.FRAGMENT]
    words = {sentence.place: _telling(sentence.text) for sentence in spoken}
    telling = _tells(words.values())
    weights: dict[int, float] = {}
    for part in article.parts:
        named = {*_telling(article.title), *_telling(part.heading)}
        for sentence in part.sentences:
            weights[sentence.place] = _weight(sentence, words.get(sentence.place, ()), telling, named)
    return weights


def _telling(text: str) -> list[str]:
    return [word for word in telling_words(text) if _may_tell(word)]


def _may_tell(word: str) -> bool:
    return word not in STOP_WORDS and (len(word) >= _SHORTEST_WORD or not word.isascii())


def _tells(sentences: Iterable[Sequence[str]]) -> dict[str, float]:
    listed = list(sentences)
    counts = Counter(word for words in listed for word in words)
    found_in = Counter(word for words in listed for word in set(words))
    most = len(listed) * _EVERYWHERE if len(listed) >= _LONGER else len(listed)
    return {word: math.log1p(count) for word, count in counts.items() if found_in[word] <= most}


def _weight(sentence: Sentence, words: Sequence[str], telling: Mapping[str, float], named: set[str]) -> float:
    told = sum(telling.get(word, 0.0) * (2 if word in named else 1) for word in dict.fromkeys(words))
    weight = (0.1 + told) / math.sqrt(len(words) + 2)
    for applies, factor in (
        (sentence.opens and sentence.worth is Worth.PROSE, _OPENS),
        (sentence.leans, _LEANS),
        (sentence.text.endswith(("?", "？", "؟")), _ASKS),
        (sentence.worth is Worth.ITEM, _LISTED),
        (sentence.announces, 0.0),
    ):
        weight *= factor if applies else 1.0
    return weight
