"""The registry's file is shared, waited for, made again and read around damage (W-01)."""

import asyncio
import itertools
import json
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from tests.fixtures.logged import logged
from tests.servers.databases.held import held_for_writing
from tests.servers.registry.tools import many_tools, opened, tool
from toolweave.config.settings import Settings
from toolweave.errors import Conflict, NotFound, PersistenceError
from toolweave.servers.registry.repository import ImportReport, open_registry_at, open_tool_registry


def damage(folder: Path, document: str, where: str = "true") -> None:
    """Overwrite the stored documents of tools."""
    with closing(sqlite3.connect(folder / "tools.db")) as file, file:
        file.execute(f"UPDATE registered_tools SET document = ? WHERE {where}", [document])  # noqa: S608


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


def delete_files(folder: Path, pattern: str = "tools.db*") -> None:
    for path in folder.glob(pattern):
        path.unlink()


async def test_the_setting_names_another_place_and_the_data_folder_is_left_alone(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "mine.db"
    settings = Settings(data_dir=tmp_path / "data", tools_database_url=f"sqlite:///file:{elsewhere}?uri=true")
    async with open_tool_registry(settings) as registry:
        await registry.create(tool("get_user"))
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o600
    assert stat.S_IMODE(elsewhere.parent.stat().st_mode) == 0o700
    assert names(tmp_path) == ["elsewhere", "mine.db"]


async def test_a_registry_in_memory_serves_calls_side_by_side_and_makes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_registry_at("sqlite:///file::memory:?uri=true") as registry:
        await asyncio.gather(*(registry.create(tool(f"t{n}")) for n in range(9)))
        assert len(await registry.list_all()) == 9
    assert names(tmp_path) == []


async def test_a_read_only_database_can_be_read_and_says_that_it_is_read_only(tmp_path: Path) -> None:
    async with opened(tmp_path) as registry:
        await registry.create(tool("get_user"))
    async with open_registry_at(f"sqlite:///file:{tmp_path / 'tools.db'}?mode=ro&uri=true") as registry:
        assert len(await registry.list_all()) == 1
        with pytest.raises(PersistenceError, match="tool registry is read-only"):
            await registry.create(tool("other"))


@pytest.mark.parametrize("how", ["deleted", "deleted with its log", "replaced"])
async def test_tools_that_are_written_after_the_file_vanished_are_there_after_a_restart(
    tmp_path: Path, how: str
) -> None:
    file, expected = tmp_path / "tools.db", [f"t{number}" for number in range(8)]
    async with opened(tmp_path / "other") as registry:
        await registry.create(tool("other"))
    async with opened(tmp_path) as registry:
        await registry.create(tool("before"))
        delete_files(tmp_path, "tools.db" if how == "deleted" else "tools.db*")
        if how == "replaced":
            (tmp_path / "other" / "tools.db").rename(file)
            expected.insert(0, "other")
        await asyncio.gather(*(registry.create(tool(f"t{number}")) for number in range(8)))
        assert [config.tool_id for config in await registry.list_all()] == expected
        assert file.stat().st_mode & 0o077 == 0
    async with opened(tmp_path) as registry:
        assert [config.tool_id for config in await registry.list_all()] == expected


async def test_a_file_that_vanished_is_an_error_until_it_can_be_made_again(tmp_path: Path) -> None:
    file = tmp_path / "tools.db"
    async with opened(tmp_path) as registry:
        await registry.create(tool("before"))
        delete_files(tmp_path)
        file.mkdir()
        for _ in range(2):
            with pytest.raises(PersistenceError, match="Cannot open the tool registry"):
                await registry.create(tool("lost"))
        file.rmdir()
        await registry.create(tool("after"))
        assert [config.tool_id for config in await registry.list_all()] == ["after"]


async def test_readers_do_not_wait_for_writers_that_wait(tmp_path: Path) -> None:
    async with open_registry_at(f"sqlite:///{tmp_path / 'tools.db'}", busy_timeout_s=600) as registry:
        await registry.create(tool("there"))
        with held_for_writing(tmp_path / "tools.db"):
            writes = [asyncio.create_task(registry.create(tool(f"t{number}"))) for number in range(20)]
            async with asyncio.timeout(60):
                for _ in range(20):
                    assert await registry.get("there")
                    assert await registry.find(["there"])
            assert not any(write.done() for write in writes)
        await asyncio.gather(*writes)
        assert len(await registry.list_all()) == 21


async def test_callers_cancelled_at_any_step_once_or_twice_leave_no_lock_and_write_all_or_nothing(
    tmp_path: Path,
) -> None:
    configs = many_tools(10)
    calls: list[asyncio.Task[ImportReport]] = []
    async with opened(tmp_path) as registry:
        for step, steps_between in itertools.product(range(0, 300, 5), (0, 1, 3)):
            # The list holds it, as a log holds the traceback of a failed call.
            calls.append(call := asyncio.create_task(registry.import_all(configs, on_conflict="replace")))
            for steps in (step, steps_between):
                for _ in range(steps):
                    await asyncio.sleep(0)
                call.cancel()
            await asyncio.wait({call})
            with held_for_writing(tmp_path / "tools.db"):
                pass
            assert len(await registry.list_all()) in (0, len(configs))
        await registry.create(tool("after"))
    assert any(call.cancelled() for call in calls)
    if closing_still := asyncio.all_tasks() - {asyncio.current_task()}:
        _, left = await asyncio.wait(closing_still, timeout=60)
        assert not left


DAMAGES = {
    "no JSON": "not json {",
    "nested too deeply": "[" * 100_000,
    "no object": "[1]",
    "fields missing": '{"tool_id": "broken"}',
    "another id": tool("other").model_dump_json(),
    "a field of tomorrow": json.dumps({**tool("broken").model_dump(mode="json"), "colour": "a secret"}),
}


@pytest.mark.parametrize("kind", DAMAGES)
async def test_a_tool_that_cannot_be_read_is_left_out_with_one_warning(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path) as registry:
        await registry.import_all([tool("broken"), tool("whole"), tool("z")])
    damage(tmp_path, DAMAGES[kind], "tool_id = 'broken'")
    with logged() as lines:
        async with opened(tmp_path) as registry:
            page = await registry.search(limit=2)
            assert ([found.config.tool_id for found in page.tools], page.total) == (["whole"], 3)
            assert list(await registry.find(["broken", "whole"])) == ["whole"]
            assert await registry.get("broken") is None
            assert [config.tool_id for config in await registry.list_all()] == ["whole", "z"]
    (line,) = lines
    assert "broken" in line
    assert "secret" not in line


async def test_a_tool_that_cannot_be_read_keeps_its_id_until_it_is_replaced_or_deleted(tmp_path: Path) -> None:
    async with opened(tmp_path) as registry:
        await registry.import_all([tool("one"), tool("two")])
        damage(tmp_path, "damaged")
        with pytest.raises(Conflict):
            await registry.create(tool("one"))
        replaced = await registry.replace(tool("one", name="Whole again"))
        assert await registry.get("one") == replaced
        await registry.delete("two")
        with pytest.raises(NotFound):
            await registry.delete("two")
