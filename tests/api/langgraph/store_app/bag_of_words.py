"""An embedding that needs no model: each word counts in a place that its letters choose."""

import re
from zlib import crc32

DIMS = 32


async def embed(texts: list[str]) -> list[list[float]]:
    """Embed texts; it refuses to embed poison, as a model that is away would."""
    if any("poison" in text for text in texts):
        raise ConnectionError("the model is away")
    vectors = []
    for text in texts:
        vector = [0.0] * DIMS
        for word in re.findall(r"\w+", text.lower()):
            vector[crc32(word.encode()) % DIMS] += 1.0
        vectors.append(vector)
    return vectors
