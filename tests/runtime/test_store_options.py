"""The `store` section of langgraph.json becomes options, and names what is wrong with it (S-02)."""

import sys
from pathlib import Path

import pytest

from toolweave.config.langgraph_json import StoreEntry
from toolweave.errors import ConfigError
from toolweave.runtime.persistence.store import SWEEP_INTERVAL_S, StoreOptions, build_store_options

EMBEDDINGS = """
from langchain_core.embeddings import Embeddings

def plain(texts):
    return [[float(len(text)), 1.0] for text in texts]

async def waiting(texts):
    return plain(texts)

class Model(Embeddings):
    def embed_documents(self, texts):
        return plain(texts)
    def embed_query(self, text):
        return plain([text])[0]

model = Model()
number = 5
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with embeddings of every kind, which modules can be imported from."""
    (tmp_path / "embeddings_of_test.py").write_text(EMBEDDINGS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "embeddings_of_test", raising=False)
    return tmp_path


def section(embed: str) -> StoreEntry:
    return StoreEntry.model_validate({"index": {"embed": embed, "dims": 2, "fields": ["text"]}})


@pytest.mark.parametrize("name", ["plain", "waiting", "model"])
@pytest.mark.parametrize("place", ["./embeddings_of_test.py", "embeddings_of_test"])
async def test_an_embedding_is_a_function_or_an_object_in_a_file_or_module(name: str, place: str, folder: Path) -> None:
    index = build_store_options(section(f"{place}:{name}"), folder).index
    assert index is not None
    assert await index.embeddings.aembed_documents(["ab"]) == [[2.0, 1.0]]
    assert await index.embeddings.aembed_query("abc") == [3.0, 1.0]
    assert (index.dims, tuple(index.fields)) == (2, ("text",))


@pytest.mark.parametrize(
    ("embed", "problem"),
    [
        ("./embeddings_of_test.py:absent", "absent"),
        ("./missing.py:embed", "missing.py"),
        ("./embeddings_of_test.py:number", "a int, which cannot embed texts"),
        ("./embeddings_of_test.py:Model", "is a class"),
        ("openai:text-embedding-3-small", "Install langchain and langchain-openai"),
    ],
)
def test_an_embedding_that_cannot_be_used_is_named_with_the_fix(embed: str, problem: str, folder: Path) -> None:
    with pytest.raises(ConfigError, match=problem):
        build_store_options(section(embed), folder)


def test_lives_and_sweeps_are_taken_over(tmp_path: Path) -> None:
    entry = StoreEntry.model_validate(
        {"ttl": {"default_ttl": 5, "refresh_on_read": False, "sweep_interval_minutes": 2}}
    )
    assert build_store_options(entry, tmp_path) == StoreOptions(None, 5, False, 120)
    entry = StoreEntry.model_validate({"ttl": {}})
    assert build_store_options(entry, tmp_path) == StoreOptions(None, None, True, SWEEP_INTERVAL_S)
    assert build_store_options(StoreEntry(), tmp_path) == StoreOptions()
