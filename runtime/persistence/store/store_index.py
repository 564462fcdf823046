"""Turn texts into the vectors that semantic search compares."""

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from operator import mul
from typing import Any

from langchain_core.embeddings import Embeddings
from langgraph.store.base import get_text_at_path, tokenize_path

from toolweave.errors import ConfigError

WHOLE_VALUE = ("$",)


@dataclass(frozen=True, slots=True)
class StoreIndex:
    """What embeds texts, the length of its vectors, and the paths of a value that are embedded unless a put says."""

    embeddings: Embeddings
    dims: int
    fields: Sequence[str] = WHOLE_VALUE

    def texts_of(self, value: Mapping[str, Any], paths: Sequence[str] | None) -> list[tuple[str, str]]:
        """Give the texts to embed as (field name, text); a path that leads to several names each."""
        found: list[tuple[str, str]] = []
        for path in self.fields if paths is None else paths:
            texts = get_text_at_path(value, path if path in WHOLE_VALUE else tokenize_path(path))
            many = len(texts) > 1
            found.extend((f"{path}.{number}" if many else path, text) for number, text in enumerate(texts))
        return found

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Embed texts that are stored. Raises ConfigError for vectors of another length than `dims`."""
        if not texts:
            return []
        return [self._packed(vector) for vector in await self.embeddings.aembed_documents(list(texts))]

    async def embed_query(self, text: str) -> bytes:
        """Embed what is searched for. Raises ConfigError for a vector of another length than `dims`."""
        return self._packed(await self.embeddings.aembed_query(text))

    def _packed(self, vector: Sequence[float]) -> bytes:
        if len(vector) != self.dims:
            raise ConfigError(
                f"the embedding gave a vector of {len(vector)} numbers where dims is {self.dims}.",
                source="langgraph.json, store.index",
                fix=f"Set dims to {len(vector)} if that is what the model gives.",
            )
        return array("f", vector).tobytes()


def nearness_to(vector: bytes) -> Callable[[bytes], float | None]:
    """Make a function that gives the cosine of the angle between the vector and another: 1 is the same direction.

    Our own, because many Pythons come with an SQLite that loads no extensions. It gives None for vectors of another
    length, made by another model, and for those without a direction.
    """
    wanted = array("f", vector)
    wanted_length = sqrt(sum(map(mul, wanted, wanted)))

    def nearness(other: bytes) -> float | None:
        if len(other) != len(vector):
            return None
        stored = array("f", other)
        lengths = wanted_length * sqrt(sum(map(mul, stored, stored)))
        return sum(map(mul, wanted, stored)) / lengths if lengths else None

    return nearness
