"""Many callers share a read: each gets what there was when it asked, and no other caller's failure (W-01)."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.servers.registry.tools import many_tools, opened, tool
from toolweave.errors import PersistenceError
from toolweave.servers.registry.repository import RegisteredTools


async def test_hundreds_who_ask_together_get_each_their_own_tools(registry: RegisteredTools) -> None:
    await registry.import_all(many_tools(300))
    wanted = [[f"tool_{n % 300}", f"tool_{(n * 7) % 300}", "nobody"] for n in range(600)]
    found = await asyncio.gather(*(registry.find(tool_ids) for tool_ids in wanted))
    for tool_ids, tools in zip(wanted, found, strict=True):
        assert set(tools) == {*tool_ids} - {"nobody"}
        assert all(config.tool_id == tool_id for tool_id, config in tools.items())


async def test_what_was_registered_before_one_asks_is_found_whatever_is_being_read(registry: RegisteredTools) -> None:
    others = [asyncio.create_task(registry.find(["tool_0"]))]
    for number in range(30):
        await registry.create(tool(f"tool_{number}"))
        others += [asyncio.create_task(registry.find([f"tool_{number + 1}"])) for _ in range(3)]
        assert list(await registry.find([f"tool_{number}"])) == [f"tool_{number}"]
    await asyncio.gather(*others)


async def test_a_caller_that_is_cancelled_takes_nothing_from_the_others(registry: RegisteredTools) -> None:
    await registry.create(tool("get_user"))
    for steps in range(20):
        callers = [asyncio.create_task(registry.find(["get_user"])) for _ in range(5)]
        for _ in range(steps):
            await asyncio.sleep(0)
        later = asyncio.create_task(registry.find(["get_user"]))
        callers[0].cancel()
        assert all([*await asyncio.gather(*callers[1:], later)])


async def test_a_read_that_fails_is_told_to_all_and_the_next_one_is_tried(tmp_path: Path) -> None:
    async with opened(tmp_path) as registry:
        with closing(sqlite3.connect(tmp_path / "tools.db")) as file, file:
            file.execute("ALTER TABLE registered_tools RENAME TO hidden")
        answers = await asyncio.gather(*(registry.find(["get_user"]) for _ in range(9)), return_exceptions=True)
        assert {str(answer) for answer in answers} == {"The tool registry cannot be used."}
        assert len({id(answer) for answer in answers}) == 9
        with closing(sqlite3.connect(tmp_path / "tools.db")) as file, file:
            file.execute("ALTER TABLE hidden RENAME TO registered_tools")
        assert await registry.find(["get_user"]) == {}


@pytest.mark.parametrize("steps", range(0, 40, 3))
async def test_nobody_is_left_waiting_by_a_registry_that_closes(tmp_path: Path, steps: int) -> None:
    async with opened(tmp_path) as registry:
        early = asyncio.create_task(registry.find(["get_user"]))
        for _ in range(steps):
            await asyncio.sleep(0)
        late = asyncio.create_task(registry.find(["get_user"]))
        await asyncio.sleep(0)
    answers = await asyncio.wait_for(asyncio.gather(early, late, return_exceptions=True), 60)
    for answer in answers:
        if isinstance(answer, BaseException):
            assert isinstance(answer, PersistenceError)
            assert "it is closed" in str(answer)
        else:
            assert answer == {}
