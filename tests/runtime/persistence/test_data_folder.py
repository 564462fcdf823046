"""A data folder opens with its tables, checkpoints and store, or says in one paragraph why not."""

import sqlite3
from pathlib import Path

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from tests.runtime.persistence.records import new_run
from toolweave.errors import DataFolderLocked, PersistenceError
from toolweave.runtime.persistence.data_folder import LOCK_FILE, open_persistence


class State(TypedDict):
    """A number."""

    n: int


def counting_graph() -> "StateGraph[State]":
    graph = StateGraph(State)
    graph.add_node("add", lambda state: {"n": state["n"] + 1})
    graph.add_edge(START, "add")
    graph.add_edge("add", END)
    return graph


@pytest.mark.requirement("S-05")
@pytest.mark.requirement("T-14")
async def test_everything_is_in_files_of_the_folder_and_there_again_after_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "on the way"
    config: RunnableConfig = {"configurable": {"thread_id": "t"}}
    async with open_persistence(folder) as first:
        await first.assistants.sync_system({"counting": None})
        await first.runs.create_run(new_run("t"))
        await first.store.aput(("notes",), "k", {"v": 1})
        await counting_graph().compile(checkpointer=first.checkpointer).ainvoke(State(n=1), config)

    async with open_persistence(folder) as second:
        assert [assistant.name for assistant in await second.assistants.search()] == ["counting"]
        assert (await second.threads.get("t")).status == "busy"
        item = await second.store.aget(("notes",), "k")
        assert item is not None
        assert item.value == {"v": 1}
        graph = counting_graph().compile(checkpointer=second.checkpointer)
        assert (await graph.aget_state(config)).values == {"n": 2}
    assert {path.name for path in folder.iterdir()} == {"app.db", "checkpoints.db", "store.db", "toolweave.lock"}


async def test_every_file_is_in_write_ahead_mode(tmp_path: Path) -> None:
    async with open_persistence(tmp_path):
        for name in ("app.db", "checkpoints.db", "store.db"):
            connection = sqlite3.connect(tmp_path / name)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            connection.close()


async def test_a_second_opening_is_refused_unless_it_does_not_want_the_folder_alone(tmp_path: Path) -> None:
    async with open_persistence(tmp_path, address="http://127.0.0.1:2024"):
        with pytest.raises(DataFolderLocked, match=r"serving on http://127\.0\.0\.1:2024"):
            async with open_persistence(tmp_path):
                pytest.fail("opened twice")
        (tmp_path / LOCK_FILE).write_text('{"pid"', encoding="utf-8")
        with pytest.raises(DataFolderLocked, match="in use by another process"):
            async with open_persistence(tmp_path):
                pytest.fail("opened twice")
        async with open_persistence(tmp_path, exclusive=False) as beside:
            assert await beside.threads.count() == 0
    async with open_persistence(tmp_path):
        pass


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 4096])
@pytest.mark.parametrize("name", ["app.db", "checkpoints.db", "store.db"])
async def test_a_damaged_file_is_named_and_the_folder_is_free_again(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)

    with pytest.raises(PersistenceError, match=rf"{name}: file is not a database.*restore a backup"):
        async with open_persistence(tmp_path):
            pytest.fail("opened")

    assert (tmp_path / name).read_bytes() == content
    (tmp_path / name).unlink()
    async with open_persistence(tmp_path):
        pass


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")

    with pytest.raises(PersistenceError, match=r"file/data cannot be created: Not a directory.*--data-dir"):
        async with open_persistence(tmp_path / "file" / "data"):
            pytest.fail("opened")
