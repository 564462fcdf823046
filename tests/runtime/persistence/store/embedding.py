"""Embed texts as bags of words: each word counts in a place that its letters choose."""

import re
from collections.abc import Sequence
from zlib import crc32

from langchain_core.embeddings import Embeddings

from toolweave.runtime.persistence.store import StoreIndex

DIMS = 64


class BagOfWords(Embeddings):
    """Deterministic and offline; keeps what it was asked, and fails on the texts it was told to."""

    def __init__(self, dims: int = DIMS, fails_on: str | None = None) -> None:
        self.dims = dims
        self.asked: list[str] = []
        self._fails_on = fails_on

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.asked += texts
        if self._fails_on is not None and any(self._fails_on in text for text in texts):
            raise ConnectionError("the model is away")
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        vector = [0.0] * self.dims
        for word in re.findall(r"\w+", text.lower()):
            vector[crc32(word.encode()) % self.dims] += 1.0
        return vector


def index(embeddings: Embeddings | None = None, fields: Sequence[str] = ("$",)) -> StoreIndex:
    return StoreIndex(embeddings or BagOfWords(), DIMS, fields)
