"""A filter selects the same threads in memory and in the database; invalid filters are refused."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.persistence.records import new_run
from toolweave.errors import Conflict, NotFound
from toolweave.runtime.models import Page
from toolweave.runtime.persistence.data_folder import open_persistence
from toolweave.runtime.persistence.search import BadFilterError, check_auth_filter, is_allowed, use_filters

Opening = Callable[[Path], AbstractAsyncContextManager[Any]]
METADATA: list[dict[str, Any]] = [
    {},
    {"owner": "ada"},
    {"owner": "bob", "shared": True},
    {"owner": ["ada"]},
    {"team": ["ada", "bob"]},
    {"owner": None, "level": 1},
]


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        ({"owner": "ada"}, [1]),
        ({"owner": {"$eq": "ada"}}, [1]),
        ({"owner": None}, [5]),
        ({"shared": True}, [2]),
        ({"level": True}, []),
        ({"owner": "bob", "shared": True}, [2]),
        ({"owner": "bob", "shared": False}, []),
        ({"team": {"$contains": "ada"}}, [4]),
        ({"team": {"$contains": ["bob", "ada"]}}, [4]),
        ({"team": {"$contains": ["ada", "eve"]}}, []),
        ({"$or": [{"owner": "ada"}, {"team": {"$contains": "bob"}}]}, [1, 4]),
        ({"$and": [{"owner": "bob"}, {"shared": True}]}, [2]),
        ({"$or": []}, []),
        ({"$or": [{"owner": "ada"}, {"$and": [{"owner": "bob"}, {"shared": True}]}]}, [1, 2]),
        ({'x" or 1=1 --': "y"}, []),
    ],
)
async def test_a_filter_lets_through_the_same_in_memory_and_in_a_search(
    wanted: dict[str, Any], seen: list[int], tmp_path: Path
) -> None:
    assert [number for number, metadata in enumerate(METADATA) if is_allowed(wanted, metadata)] == seen
    async with open_persistence(tmp_path) as persistence:
        for number, metadata in enumerate(METADATA):
            await persistence.threads.create(f"{number}", metadata=metadata)
        with use_filters({"threads": wanted}):
            found = await persistence.threads.search(Page(sort_by="thread_id", sort_order="asc"))
            assert [int(thread.thread_id) for thread in found] == seen
            assert await persistence.threads.count() == len(seen)
            assert await persistence.assistants.count() == 0
        assert await persistence.threads.count() == len(METADATA)


async def test_a_thread_that_another_user_created_meanwhile_is_neither_returned_nor_used(tmp_path: Path) -> None:
    async with open_persistence(tmp_path) as persistence:
        await persistence.threads.create("theirs", metadata={"owner": "bob"})
        with use_filters({"threads": {"owner": "ada"}}), pytest.raises(Conflict):
            await persistence.threads.create("theirs", if_exists="do_nothing")
        with pytest.raises(NotFound):
            await persistence.runs.create_run(new_run("theirs", thread_filter={"owner": "ada"}))
        assert await persistence.runs.list("theirs") == []
        assert (await persistence.runs.create_run(new_run("theirs", thread_filter={"owner": "bob"}))).is_due


@pytest.mark.parametrize(
    "wanted",
    [
        {"owner": {"$gt": "a"}},
        {"owner": {"$eq": "a", "$contains": "b"}},
        {"owner": {}},
        {"owner": {"$eq": {"a": 1}}},
        {"owner": object()},
        {"$not": [{"owner": "a"}]},
        {"$or": {"owner": "a"}},
        {"$or": [{"owner": "a"}, {"owner": {"$lt": 1}}]},
        {"owner": {"$contains": [["a"]]}},
    ],
)
def test_an_invalid_filter_is_an_error(wanted: dict[str, Any]) -> None:
    with pytest.raises(BadFilterError):
        check_auth_filter(wanted)
