"""The memory server stores entities over restarts of its process (C-09)."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from tests.external.shipped import answer, plane_with
from tests.fixtures.mcp_server import child_pids
from tests.servers.connections.peers import connection, until
from toolweave.servers.connections.plane import ToolPlane

pytestmark = [pytest.mark.external, pytest.mark.slow]

ENTITY = {"name": "Ada", "entityType": "person", "observations": ["prefers short answers"]}


async def search(plane: ToolPlane) -> list[str]:
    found = json.loads(await answer(plane, "memory", "search_nodes", query="short answers"))
    return [entity["name"] for entity in found["entities"]]


@pytest.mark.requirement("C-09")
async def test_what_was_remembered_is_there_after_the_server_was_killed_and_after_a_new_start(data_dir: Path) -> None:
    async with plane_with("memory", data_dir=data_dir) as plane:
        await answer(plane, "memory", "create_entities", entities=[ENTITY])
        (pid,) = child_pids(str(data_dir / "servers"))
        os.kill(pid, signal.SIGKILL)
        await until(plane, "down", name="memory")
        await until(plane, "ready", name="memory")
        assert await search(plane) == ["Ada"]
        assert child_pids(str(data_dir / "servers")) != [pid]
    async with plane_with("memory", data_dir=data_dir) as plane:
        assert await search(plane) == ["Ada"]
    assert "prefers short answers" in (data_dir / "memory.jsonl").read_text(encoding="utf-8")


async def test_many_entities_created_at_once_are_all_stored(data_dir: Path) -> None:
    names = [f"thing-{number}" for number in range(20)]
    async with plane_with("memory", data_dir=data_dir) as plane:
        tasks = [answer(plane, "memory", "create_entities", entities=[{**ENTITY, "name": name}]) for name in names]
        await asyncio.gather(*tasks)
        graph = json.loads(await answer(plane, "memory", "read_graph"))
        assert connection(plane, "memory").status.state == "ready"
    assert sorted(entity["name"] for entity in graph["entities"]) == sorted(names)
