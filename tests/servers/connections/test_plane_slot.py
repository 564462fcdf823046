import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.connections.peers import BOUND_S, MISBEHAVING, QUICK, call, misbehaving, pid_of, text_of
from toolweave.errors import ConfigError, ServerUnavailable
from toolweave.servers.connections.plane import open_tool_plane
from toolweave.servers.connections.plane_slot import plane_slot


@pytest.fixture
def served_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let the process's settings name an mcp.jsonc with one peer."""
    path = tmp_path / "mcp.jsonc"
    entry = {"command": sys.executable, "args": [MISBEHAVING]}
    path.write_text(json.dumps({"mcpServers": {"peer": entry}}), encoding="utf-8")
    monkeypatch.setenv("TOOLWEAVE_MCP_CONFIG", str(path))
    yield path
    asyncio.run(publish_and_withdraw())
    for thread in threading.enumerate():
        if thread.name == "toolweave-tool-plane":
            thread.join(BOUND_S)


async def publish_and_withdraw() -> None:
    """Let the plane of the daemon thread close."""
    async with open_tool_plane([]) as plane:
        plane_slot.set_plane(plane)
        plane_slot.clear_plane(plane)


async def test_the_published_plane_is_the_current_one_until_it_is_withdrawn_or_replaced() -> None:
    async with open_tool_plane([]) as first, open_tool_plane([]) as second:
        plane_slot.set_plane(first)
        assert await plane_slot.get_plane() is first
        plane_slot.set_plane(second)
        plane_slot.clear_plane(first)
        assert await plane_slot.get_plane() is second
        plane_slot.clear_plane(second)
        plane_slot.expect_plane()
        with pytest.raises(ServerUnavailable, match=r"within 0\.01 seconds"):
            await plane_slot.get_plane(0.01)
        plane_slot.clear_plane(second)


async def test_a_run_that_starts_before_the_expected_plane_waits_for_it() -> None:
    plane_slot.expect_plane()
    waiting = asyncio.create_task(plane_slot.get_plane(BOUND_S))
    elsewhere = asyncio.create_task(asyncio.to_thread(asyncio.run, plane_slot.get_plane(BOUND_S)))
    await asyncio.sleep(0)
    async with open_tool_plane([], timing=QUICK) as plane:
        plane_slot.set_plane(plane)
        assert await waiting is plane
        assert await elsewhere is plane
        plane_slot.clear_plane(plane)


def test_without_a_lifespan_one_background_plane_serves_all_event_loops(served_config: Path) -> None:
    async def use() -> int:
        planes = await asyncio.gather(*(plane_slot.get_plane(BOUND_S) for _ in range(5)))
        assert len(set(planes)) == 1
        await planes[0].wait_for_servers(timeout_s=BOUND_S)
        return await pid_of(planes[0])

    assert asyncio.run(use()) == asyncio.run(use())


async def test_a_published_plane_replaces_the_background_plane(served_config: Path) -> None:
    background = await plane_slot.get_plane(BOUND_S)
    async with open_tool_plane([misbehaving()], timing=QUICK) as plane:
        plane_slot.set_plane(plane)
        assert await plane_slot.get_plane() is plane
        assert background is not plane
        assert text_of(await call(plane, "echo")) == "{}"
        plane_slot.clear_plane(plane)


def test_an_invalid_configuration_is_an_error_of_the_caller_and_can_be_repaired(served_config: Path) -> None:
    good = served_config.read_text(encoding="utf-8")
    served_config.write_text("{ not json5", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"mcp\.jsonc"):
        asyncio.run(plane_slot.get_plane(BOUND_S))
    served_config.write_text(good, encoding="utf-8")
    assert list(asyncio.run(plane_slot.get_plane(BOUND_S)).health()) == ["peer"]


@pytest.mark.requirement("T-09")
def test_the_background_plane_ends_its_servers_when_the_process_ends(served_config: Path) -> None:
    code = (
        "import asyncio\n"
        "from toolweave.servers.connections.context import CallContext\n"
        "from toolweave.servers.connections.plane_slot import plane_slot\n"
        "async def main():\n"
        "    plane = await plane_slot.get_plane(20)\n"
        "    await plane.wait_for_servers(timeout_s=60)\n"
        "    print((await plane.call('peer', 'pid', {}, CallContext())).content[0].text)\n"
        "asyncio.run(main())\n"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, encoding="utf-8", check=True
    )
    assert not Path("/proc", run.stdout.strip()).exists()
    assert "Traceback" not in run.stderr
