"""Find what of an article can be said: its prose, and what else is needed where that is not enough."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from toolweave.nodes.offline_model.scripts.article import Article, Part, Sentence, Worth
from toolweave.nodes.offline_model.scripts.spoken_words import SpokenLength

_MOST_GROUPS_COMPARED = 200


@dataclass(frozen=True, slots=True)
class Group:
    """What one section of the script is made of: sentences in order, and the parts of the article they are from."""

    parts: tuple[Part, ...]
    sentences: tuple[tuple[int, Sentence], ...]
    """Each with the number of its part among `parts`."""


def groups_of(article: Article, length: SpokenLength, enough: float, least: int, most: int) -> list[Group]:
    """Divide what can be said into `least` to `most` groups in the article's order; fewer if there is too little.

    `enough` is the share of the length that whole sentences have to fill, else captions, tables and code are said, too.
    """
    groups = _joined(_sayable(article, length, enough, least), most)
    while 0 < len(groups) < least:
        longest = max(range(len(groups)), key=lambda place: len(groups[place].sentences))
        if len(groups[longest].sentences) == 1:
            break
        groups[longest : longest + 1] = _halves(groups[longest])
    return groups


def _sayable(article: Article, length: SpokenLength, enough: float, least: int) -> list[Group]:
    found: list[Group] = []
    for worth in sorted(set(Worth) - {Worth.PROSE}, reverse=True):
        found = [group for part in article.parts if (group := _group(part, worth)).sentences]
        texts = [sentence.text for group in found for _, sentence in group.sentences]
        if len(texts) >= least and sum(map(length.share_of, texts)) >= enough:
            break
    return found


def _group(part: Part, worth: Worth) -> Group:
    return Group((part,), tuple((0, sentence) for sentence in part.sentences if sentence.worth >= worth))


def _joined(groups: list[Group], most: int) -> list[Group]:
    """Join neighbours, the shortest first, until there are few enough."""
    if len(groups) > _MOST_GROUPS_COMPARED:
        step = -(-len(groups) // _MOST_GROUPS_COMPARED)
        groups = [_together(groups[start : start + step]) for start in range(0, len(groups), step)]
    while len(groups) > max(most, 1):
        sizes = [len(one.sentences) + len(other.sentences) for one, other in pairwise(groups)]
        place = sizes.index(min(sizes))
        groups[place : place + 2] = [_together(groups[place : place + 2])]
    return groups


def _together(groups: Sequence[Group]) -> Group:
    parts: list[Part] = []
    sentences: list[tuple[int, Sentence]] = []
    for group in groups:
        sentences += [(number + len(parts), sentence) for number, sentence in group.sentences]
        parts += group.parts
    return Group(tuple(parts), tuple(sentences))


def _halves(group: Group) -> list[Group]:
    """Divide a group near its middle: between paragraphs, or else before a sentence that can stand alone."""
    count = len(group.sentences)
    places = sorted(range(1, count), key=lambda place: abs(place - count / 2))
    near = [group.sentences[place][1] for place in places[: max(count // 2, 1)]]
    good = [sentence for sentence in near if not sentence.leans]
    best = next((sentence for sentence in good if sentence.begins), next(iter(good), near[0]))
    cut = next(place for place in places if group.sentences[place][1] is best)
    return [Group(group.parts, group.sentences[:cut]), Group(group.parts, group.sentences[cut:])]
