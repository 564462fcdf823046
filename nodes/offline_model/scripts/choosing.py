"""Choose the sentences that are said: those that open a section, then those that weigh most, until the time is full."""

from collections.abc import Mapping, Sequence

from toolweave.nodes.offline_model.scripts.article import Sentence
from toolweave.nodes.offline_model.scripts.candidates import Group
from toolweave.nodes.offline_model.scripts.spoken_words import SpokenLength

_FULL = 1.05
"""What is hardly longer than the length is said whole."""


class Choice:
    """The places of the chosen sentences; `_left` is the share of the length that is free."""

    def __init__(self, groups: Sequence[Group], weights: Mapping[int, float], length: SpokenLength, least: int) -> None:
        self._groups = groups
        self._weights = weights
        self._shares = {
            sentence.place: length.share_of(sentence.text) for group in groups for _, sentence in group.sentences
        }
        self._least = least
        self._left = 1.0
        self.places: set[int] = set()

    def made(self) -> list[Group]:
        """Give the groups with the chosen sentences only, without those that have none."""
        if sum(self._shares.values()) <= _FULL:
            return list(self._groups)
        self._take_leads()
        self._take_weightiest()
        kept = [
            Group(group.parts, tuple(one for one in group.sentences if one[1].place in self.places))
            for group in self._groups
        ]
        return [group for group in kept if group.sentences]

    def _take_leads(self) -> None:
        """Let every group say one sentence, the first and the weightiest groups before the others."""
        ranked = sorted(range(len(self._groups)), key=lambda number: (number > 0, -self._group_weight(number)))
        for taken, number in enumerate(ranked):
            lead = self._lead(self._groups[number])
            if taken < self._least or self._shares[lead.place] <= self._left:
                self._take([lead])

    def _lead(self, group: Group) -> Sentence:
        """Find what can open a group: early, understandable alone, and not too long to leave room for the others."""
        room = 1.5 / len(self._groups)
        said = [sentence for _, sentence in group.sentences]
        short = [sentence for sentence in said if self._shares[sentence.place] <= room]
        alone = [sentence for sentence in short if not sentence.leans]
        opening = next((sentence for sentence in alone if sentence.opens), None)
        return opening or next(iter(alone or short), min(said, key=lambda sentence: self._shares[sentence.place]))

    def _group_weight(self, number: int) -> float:
        return sum(self._weights[sentence.place] for _, sentence in self._groups[number].sentences)

    def _take_weightiest(self) -> None:
        before: dict[int, Sentence | None] = {}
        listed: list[Sentence] = []
        for group in self._groups:
            previous: tuple[int, Sentence] | None = None
            for number, sentence in group.sentences:
                before[sentence.place] = previous[1] if previous and previous[0] == number else None
                previous = (number, sentence)
                listed.append(sentence)
        for sentence in sorted(listed, key=lambda one: (-self._weights[one.place], one.place)):
            needed = self._needed(sentence, before)
            if needed and sum(self._shares[one.place] for one in needed) <= self._left:
                self._take(needed)

    def _needed(self, sentence: Sentence, before: Mapping[int, Sentence | None]) -> list[Sentence]:
        """List a sentence with those before it without which it is not understood, as far as they are not chosen."""
        needed: list[Sentence] = []
        one: Sentence | None = sentence
        while one is not None and one.place not in self.places:
            needed.append(one)
            one = before[one.place] if one.leans else None
        return needed

    def _take(self, sentences: Sequence[Sentence]) -> None:
        for sentence in sentences:
            self.places.add(sentence.place)
            self._left -= self._shares[sentence.place]
