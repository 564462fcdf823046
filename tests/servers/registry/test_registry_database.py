"""The registry's file is private, shared, waited for, and refused in words that name it and the fix (W-01)."""

import asyncio
import itertools
import json
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.fixtures.logged import logged
from tests.servers.databases.held import held_for_writing
from tests.servers.registry.tools import many_tools, opened, tool
from toolweave.config.settings import Settings
from toolweave.errors import Conflict, NewerSchema, NotFound, PersistenceError
from toolweave.servers.registry.repository import ImportReport, open_registry_at, open_tool_registry

ROOT = Path(__file__).parents[3]
SETTING = "TOOLWEAVE_TOOLS_DATABASE_URL"


def change(folder: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(folder / "tools.db")) as file, file:
        file.execute(statement, values)


def open_to_others(folder: Path) -> None:
    for path in folder.iterdir():
        path.chmod(0o644)


def write_beside(folder: Path) -> None:
    with held_for_writing(folder / "tools.db"):
        pass


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


async def test_folder_and_files_are_created_for_nobody_but_their_owner(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "er"
    async with opened(folder) as registry:
        await registry.create(tool("get_user"))
        assert modes(folder) == {"tools.db": 0o600, "tools.db-wal": 0o600, "tools.db-shm": 0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_files_that_were_open_to_others_are_closed_to_them(tmp_path: Path) -> None:
    async with opened(tmp_path) as other:
        await other.create(tool("get_user"))
        open_to_others(tmp_path)
        async with opened(tmp_path) as registry:
            assert set(modes(tmp_path).values()) == {0o600}
            assert await registry.get("get_user")


async def test_the_setting_names_another_place_and_the_data_folder_is_left_alone(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "mine.db"
    settings = Settings(data_dir=tmp_path / "data", tools_database_url=f"sqlite:///file:{elsewhere}?uri=true")
    async with open_tool_registry(settings) as registry:
        await registry.create(tool("get_user"))
    assert modes(elsewhere.parent) == {"mine.db": 0o600}
    assert list(modes(tmp_path)) == ["elsewhere"]


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file::memory:?uri=true"])
async def test_a_registry_in_memory_serves_calls_side_by_side_and_makes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_registry_at(url) as registry:
        await asyncio.gather(*(registry.create(tool(f"t{n}")) for n in range(9)))
        assert len(await registry.list_all()) == 9
    assert modes(tmp_path) == {}


async def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as registry:
        await registry.create(tool("get_user"))
    change(tmp_path, "UPDATE tool_registry_schema_version SET version = 7")
    before = (tmp_path / "tools.db").read_bytes()
    with pytest.raises(NewerSchema, match=r"tool registry .*tools\.db was .*newer.*has schema 7.* Upgrade") as refusal:
        async with opened(tmp_path):
            pass
    assert SETTING in str(refusal.value)
    assert (tmp_path / "tools.db").read_bytes() == before


READ_ONLY_FOLDER = """
import asyncio, os, sys
from toolweave.errors import PersistenceError
from toolweave.servers.registry.repository import ImportReport
from toolweave.servers.registry.repository import open_registry_at

async def attempt(url):
    async with open_registry_at(url) as registry:
        return await registry.search(limit=1)

asyncio.run(attempt("sqlite://"))  # everything is imported by now
if os.geteuid() == 0:
    os.seteuid(65534)  # to root nothing is read-only
try:
    asyncio.run(attempt(sys.argv[1]))
except PersistenceError as error:
    print(error)
"""


def test_a_read_only_folder_is_refused_in_words(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    url = f"sqlite:///{folder / 'tools.db'}"
    done = subprocess.run(
        [sys.executable, "-c", READ_ONLY_FOLDER, url],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    assert "Permission denied" in done.stdout, done.stderr
    assert str(folder) in done.stdout
    assert SETTING in done.stdout
    assert list(folder.iterdir()) == []


async def test_a_read_only_database_can_be_read_and_says_that_it_is_read_only(tmp_path: Path) -> None:
    async with opened(tmp_path) as registry:
        await registry.create(tool("get_user"))
    async with open_registry_at(f"sqlite:///file:{tmp_path / 'tools.db'}?mode=ro&uri=true") as registry:
        assert len(await registry.list_all()) == 1
        with pytest.raises(PersistenceError, match="tool registry is read-only"):
            await registry.create(tool("other"))


def delete_database(file: Path, *, with_log: bool = True) -> None:
    for path in (file, Path(f"{file}-wal"), Path(f"{file}-shm")):
        if path == file or with_log:
            path.unlink(missing_ok=True)


@pytest.mark.parametrize("how", ["deleted", "deleted with its log", "replaced"])
async def test_what_is_written_after_the_file_went_is_there_after_a_restart(tmp_path: Path, how: str) -> None:
    file, expected = tmp_path / "tools.db", [f"t{number}" for number in range(8)]
    async with opened(tmp_path / "other") as registry:
        await registry.create(tool("other"))
    async with opened(tmp_path) as registry:
        await registry.create(tool("before"))
        delete_database(file, with_log=how != "deleted")
        if how == "replaced":
            (tmp_path / "other" / "tools.db").rename(file)
            expected.insert(0, "other")
        await asyncio.gather(*(registry.create(tool(f"t{number}")) for number in range(8)))
        assert [config.tool_id for config in await registry.list_all()] == expected
        assert file.stat().st_mode & 0o077 == 0
    async with opened(tmp_path) as registry:
        assert [config.tool_id for config in await registry.list_all()] == expected


async def test_a_file_that_went_and_cannot_be_made_anew_is_an_error_until_it_can(tmp_path: Path) -> None:
    file = tmp_path / "tools.db"
    async with opened(tmp_path) as registry:
        await registry.create(tool("before"))
        delete_database(file)
        file.mkdir()
        for _ in range(2):
            with pytest.raises(PersistenceError, match="Cannot open the tool registry"):
                await registry.create(tool("lost"))
        file.rmdir()
        await registry.create(tool("kept"))
        assert [config.tool_id for config in await registry.list_all()] == ["kept"]


async def test_readers_need_not_wait_for_writers_that_wait(tmp_path: Path) -> None:
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


def test_callers_that_are_cancelled_while_they_wait_leave_no_lock_and_no_task(tmp_path: Path) -> None:
    async def serve() -> None:
        async with open_registry_at(f"sqlite:///{tmp_path / 'tools.db'}", busy_timeout_s=600) as registry:
            with held_for_writing(tmp_path / "tools.db"):
                calls = [asyncio.create_task(registry.create(tool("never"))) for _ in range(7)]
                done, _ = await asyncio.wait(calls, timeout=0.05)
                assert not done
                for call in calls:
                    call.cancel()
            await asyncio.wait(calls)
            assert await registry.list_all() == []
            await registry.create(tool("after"))
            await registry.delete("after")
        assert asyncio.all_tasks() == {asyncio.current_task()}

    for _ in range(3):
        asyncio.run(serve())
    write_beside(tmp_path)


async def test_callers_cancelled_at_any_step_once_or_twice_leave_no_lock_and_write_all_or_nothing(
    tmp_path: Path,
) -> None:
    configs = many_tools(10)
    calls: list[asyncio.Task[ImportReport]] = []
    async with opened(tmp_path) as registry:
        for step, steps_between in itertools.product(range(0, 300, 5), (0, 1, 3)):
            # Kept, as a log keeps the traceback of a failed call.
            calls.append(call := asyncio.create_task(registry.import_all(configs, on_conflict="replace")))
            for steps in (step, steps_between):
                for _ in range(steps):
                    await asyncio.sleep(0)
                call.cancel()
            await asyncio.wait({call})
            await asyncio.to_thread(write_beside, tmp_path)
            assert len(await registry.list_all()) in (0, len(configs))
        await registry.create(tool("after"))
    assert any(call.cancelled() for call in calls)
    if closing_still := asyncio.all_tasks() - {asyncio.current_task()}:
        _, left = await asyncio.wait(closing_still, timeout=60)
        assert not left


DAMAGES = {
    "no JSON": "not json {",
    "empty": "",
    "nested too deeply": "[" * 100_000,
    "no object": "[1]",
    "fields missing": '{"tool_id": "broken"}',
    "another id": tool("other").model_dump_json(),
    "a field of tomorrow": json.dumps({**tool("broken").model_dump(mode="json"), "colour": "a secret"}),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_tool_that_cannot_be_read_is_left_out_with_one_warning(tmp_path: Path, damage: str) -> None:
    async with opened(tmp_path) as registry:
        await registry.import_all([tool("broken"), tool("whole"), tool("z")])
    change(tmp_path, "UPDATE registered_tools SET document = ? WHERE tool_id = 'broken'", DAMAGES[damage])
    with logged() as said:
        async with opened(tmp_path) as registry:
            page = await registry.search(limit=2)
            assert ([found.config.tool_id for found in page.tools], page.total) == (["whole"], 3)
            assert list(await registry.find(["broken", "whole"])) == ["whole"]
            assert await registry.get("broken") is None
            assert [config.tool_id for config in await registry.list_all()] == ["whole", "z"]
    assert len(said) == 1
    assert "broken" in said[0]
    assert "secret" not in said[0]


async def test_a_tool_that_cannot_be_read_keeps_its_id_until_it_is_replaced_or_deleted(tmp_path: Path) -> None:
    async with opened(tmp_path) as registry:
        await registry.import_all([tool("one"), tool("two")])
        change(tmp_path, "UPDATE registered_tools SET document = 'damaged'")
        with pytest.raises(Conflict):
            await registry.create(tool("one"))
        replaced = await registry.replace(tool("one", name="Whole again"))
        assert await registry.get("one") == replaced
        await registry.delete("two")
        with pytest.raises(NotFound):
            await registry.delete("two")
