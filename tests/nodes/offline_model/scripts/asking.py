"""Have the offline model write scripts through the write and validate nodes, and compare them with the article."""

from dataclasses import dataclass
from typing import Any

from tests.nodes.script.writing import writing_graph
from toolweave.nodes.offline_model.model import OfflineChatModel
from toolweave.nodes.script.page import ArticlePage


@dataclass
class Written:
    """A script that passed validation, with the calls it took: {"write": 1} if it did at the first try."""

    script: dict[str, Any]
    calls: dict[str, int]

    @property
    def sections(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.script["sections"]
        return found

    @property
    def narrations(self) -> list[str]:
        return [narration["text"] for section in self.sections for narration in section["narrations"]]


async def written_of(page: ArticlePage, settings: dict[str, Any] | None = None) -> Written:
    """Write a script of a page."""
    state = await writing_graph(OfflineChatModel()).ainvoke({"page": page, "settings": settings})
    return Written(state["script"], state["metadata"]["usage"]["calls"])


def in_order(spoken: list[str], article: list[str]) -> bool:
    """Return whether all sentences are in the article, in its order."""
    text, place = " ".join(article), 0
    for sentence in spoken:
        place = text.find(sentence, place) + len(sentence)
        if place < len(sentence):
            return False
    return True
