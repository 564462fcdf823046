"""Embed texts as bags of words: each word counts in a place that its letters choose."""

import re
from collections.abc import Sequence
from zlib import crc32

from langchain_core.embeddings import Embeddings

from toolweave.runtime.persistence.store import StoreIndex

DIMS = 64


class BagOfWords(Embeddings):
    """Deterministic and offline; records the texts."""

    def __init__(self, dims: int = DIMS) -> None:
        self.dims = dims
        self.texts: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.texts += texts
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        vector = [0.0] * self.dims
        for word in re.findall(r"\w+", text.lower()):
            vector[crc32(word.encode()) % self.dims] += 1.0
        return vector


def index(embeddings: Embeddings | None = None, fields: Sequence[str] = ("$",)) -> StoreIndex:
    return StoreIndex(embeddings or BagOfWords(), DIMS, fields)
