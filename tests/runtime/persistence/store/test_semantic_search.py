"""With an embedding, a query finds items by their meaning."""

import pytest

from tests.runtime.persistence.store.conftest import StoreDatabase
from tests.runtime.persistence.store.embedding import DIMS, BagOfWords, index
from toolweave.errors import ConfigError
from toolweave.runtime.persistence.store import StoreIndex, StoreOptions

NS = ("notes",)


async def test_a_put_chooses_the_fields_to_embed(store_database: StoreDatabase) -> None:
    embeddings = BagOfWords()
    async with store_database.open(StoreOptions(index(embeddings, ["title"]))) as store:
        await store.aput(NS, "default", {"title": "red", "body": "blue"})
        await store.aput(
            NS, "chosen", {"title": "red", "parts": [{"text": "blue"}, {"text": "green"}]}, ["parts[*].text"]
        )
        await store.aput(NS, "none", {"title": "red"}, index=False)
        assert embeddings.texts == ["red", "blue", "green"]
        assert [(item.key, item.score) for item in await store.asearch(NS, query="blue")] == [
            ("chosen", pytest.approx(1.0)),
            ("default", pytest.approx(0.0)),
            ("none", None),
        ]


async def test_without_an_index_a_query_changes_nothing(store_database: StoreDatabase) -> None:
    async with store_database.open(StoreOptions()) as store:
        await store.aput(NS, "a", {"text": "x"})
        await store.aput(NS, "b", {"text": "cats"})
        assert [(item.key, item.score) for item in await store.asearch(NS, query="cats")] == [("a", None), ("b", None)]


async def test_an_update_replaces_the_embedded_texts(store_database: StoreDatabase) -> None:
    async with store_database.open(StoreOptions(index(fields=["parts[*]"]))) as store:
        await store.aput(NS, "k", {"parts": ["red", "blue"]})
        await store.aput(NS, "k", {"parts": ["green"]})
        (item,) = await store.asearch(NS, query="blue")
        assert item.score == pytest.approx(0.0)
        await store.aput(NS, "k", {"parts": ["blue"]}, index=False)
        (item,) = await store.asearch(NS, query="blue")
        assert item.score is None
        await store.adelete(NS, "k")
        await store.aput(NS, "k", {"parts": []})
        (item,) = await store.asearch(NS, query="green")
        assert item.score is None


async def test_vectors_of_another_length_than_configured_are_refused_with_the_fix(
    store_database: StoreDatabase,
) -> None:
    options = StoreOptions(StoreIndex(BagOfWords(dims=3), DIMS))
    async with store_database.open(options) as store:
        with pytest.raises(ConfigError, match="Set dims to 3"):
            await store.aput(NS, "k", {"text": "x"})
        with pytest.raises(ConfigError, match="3 numbers where dims is 64"):
            await store.asearch(NS, query="x")


async def test_vectors_of_an_earlier_model_do_not_fail_searches(store_database: StoreDatabase) -> None:
    async with store_database.open(StoreOptions(StoreIndex(BagOfWords(dims=3), 3))) as store:
        await store.aput(NS, "before", {"text": "cats"})
    async with store_database.open(StoreOptions(index())) as store:
        await store.aput(NS, "now", {"text": "cats"})
        found = await store.asearch(NS, query="cats")
        assert [(item.key, item.score is None) for item in found] == [("now", False), ("before", True)]


async def test_a_text_without_any_word_that_counts_has_no_score(store_database: StoreDatabase) -> None:
    async with store_database.open(StoreOptions(index(fields=["text"]))) as store:
        await store.aput(NS, "blank", {"text": "!?"})
        await store.aput(NS, "word", {"text": "cats"})
        assert [item.key for item in await store.asearch(NS, query="cats")] == ["word", "blank"]
        assert [item.score for item in await store.asearch(NS, query="!?")] == [None, None]
