"""A URL that leads to no database is refused with the file and the setting (T-13, W-01)."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from toolweave.errors import ConfigError, PersistenceError
from toolweave.servers.registry.repository import open_registry_at
from toolweave.servers.todo.database import open_todo_database

Open = Callable[[str], AbstractAsyncContextManager[Any]]
SUBJECTS = {"TOOLWEAVE_TODO_DATABASE_URL": "todo database", "TOOLWEAVE_TOOLS_DATABASE_URL": "tool registry"}

pytestmark = [
    pytest.mark.requirement("T-13"),
    pytest.mark.parametrize(
        ("opening", "setting"),
        [(open_todo_database, "TOOLWEAVE_TODO_DATABASE_URL"), (open_registry_at, "TOOLWEAVE_TOOLS_DATABASE_URL")],
        ids=["todo", "registry"],
    ),
]


async def refusal(opening: Open, url: str, error: type[Exception]) -> str:
    with pytest.raises(error) as refused:
        async with opening(url):
            pass
    return str(refused.value)


@pytest.mark.parametrize("url", ["x.db", "", "nonsense://x", "sqlite+pysqlite:///x.db", "mysql://u:secret@h/d"])
async def test_a_url_without_asynchronous_driver_is_refused_without_its_password(
    opening: Open, setting: str, url: str
) -> None:
    message = await refusal(opening, url, ConfigError)
    assert setting in message
    assert "secret" not in message


async def test_a_file_that_is_no_database_is_refused_and_left_alone(
    opening: Open, setting: str, tmp_path: Path
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes\n" * 100, encoding="utf-8")
    message = await refusal(opening, f"sqlite:///{path}", PersistenceError)
    assert "is not a SQLite database" in message
    assert all(part in message for part in (SUBJECTS[setting], str(path), setting))
    assert path.read_text(encoding="utf-8") == "these are my notes\n" * 100


@pytest.mark.parametrize("name", ["a_folder", "a_file/x.db"])
async def test_a_path_that_cannot_hold_a_database_is_refused(
    opening: Open, setting: str, tmp_path: Path, name: str
) -> None:
    (tmp_path / "a_folder").mkdir()
    (tmp_path / "a_file").write_text("x", encoding="utf-8")
    message = await refusal(opening, f"sqlite:///{tmp_path / name}", PersistenceError)
    assert all(part in message for part in (SUBJECTS[setting], str(tmp_path / name), setting))
