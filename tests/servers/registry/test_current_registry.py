"""Served graphs and routes find the process's registry, on whatever event loop they run."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.servers.registry.tools import opened, tool
from toolweave.errors import ConfigError, PersistenceError
from toolweave.servers.registry.current import MAX_OPEN_REGISTRIES, REGISTRY, RegistrySlot

T = TypeVar("T")


async def on_another_loop(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return await asyncio.to_thread(lambda: asyncio.run(work()))


async def test_the_published_registry_is_used_itself_on_its_own_loop(tmp_path: Path) -> None:
    async with opened(tmp_path) as registry:
        await registry.create(tool("get_user"))
        REGISTRY.publish(registry)
        try:
            async with REGISTRY.open_registry() as found:
                assert found is registry
            assert await REGISTRY.find(["get_user", "nobody"]) == {"get_user": tool("get_user")}
        finally:
            REGISTRY.unpublish(registry)


async def test_on_another_loop_the_same_database_is_opened_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The settings of the publisher may differ from those of the environment.
    monkeypatch.setenv("TOOLWEAVE_DATA_DIR", str(tmp_path / "elsewhere"))

    async def register(number: int) -> dict[str, Any]:
        async with REGISTRY.open_registry() as found:
            assert found is not registry
            await found.create(tool(f"there_{number}"))
        return dict(await REGISTRY.find(["here", f"there_{number}"]))

    async with opened(tmp_path) as registry:
        await registry.create(tool("here"))
        REGISTRY.publish(registry)
        try:
            here = asyncio.gather(*(registry.create(tool(f"here_{n}")) for n in range(10)))
            there = await asyncio.gather(*(on_another_loop(lambda n=n: register(n)) for n in range(4)))  # type: ignore[misc]
            await here
            assert [list(found) for found in there] == [["here", f"there_{n}"] for n in range(4)]
            assert len(await registry.list_all()) == 15
        finally:
            REGISTRY.unpublish(registry)
    assert not (tmp_path / "elsewhere").exists()


async def test_each_of_two_loops_has_the_registry_that_was_published_on_it(tmp_path: Path) -> None:
    slot = RegistrySlot()
    both_are_published = threading.Barrier(2)

    async def serve(name: str) -> list[str]:
        async with opened(tmp_path / name) as registry:
            await registry.create(tool(name))
            slot.publish(registry)
            await asyncio.to_thread(both_are_published.wait, 60)
            async with slot.open_registry() as found:
                assert found is registry
                ids = [config.tool_id for config in await found.list_all()]
            await asyncio.to_thread(both_are_published.wait, 60)
            slot.unpublish(registry)
            return ids

    served = await asyncio.gather(*(on_another_loop(lambda name=name: serve(name)) for name in ("one", "two")))  # type: ignore[misc]
    assert served == [["one"], ["two"]]


async def test_without_a_lifespan_the_registry_of_the_settings_is_opened_for_each_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLWEAVE_DATA_DIR", str(tmp_path))
    async with opened(tmp_path) as registry:
        await registry.create(tool("get_user"))
        REGISTRY.publish(registry)
        REGISTRY.unpublish(registry)
        async with REGISTRY.open_registry() as found:
            assert found is not registry
        assert list(await REGISTRY.find(["get_user"])) == ["get_user"]
    monkeypatch.setenv("TOOLWEAVE_TOOLS_DATABASE_URL", f"sqlite:///{tmp_path / 'other.db'}")
    assert await REGISTRY.find(["get_user"]) == {}


async def test_a_registry_that_cannot_be_opened_is_an_error_and_is_opened_by_a_later_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLWEAVE_TOOLS_DATABASE_URL", "nonsense://x")
    with pytest.raises(ConfigError, match="TOOLWEAVE_TOOLS_DATABASE_URL"):
        await REGISTRY.find(["get_user"])
    (tmp_path / "file").write_text("x", encoding="utf-8")
    monkeypatch.setenv("TOOLWEAVE_TOOLS_DATABASE_URL", f"sqlite:///{tmp_path / 'file' / 'tools.db'}")
    with pytest.raises(PersistenceError, match="TOOLWEAVE_TOOLS_DATABASE_URL"):
        await REGISTRY.find(["get_user"])
    (tmp_path / "file").unlink()
    assert await REGISTRY.find(["get_user"]) == {}


async def test_at_most_a_few_registries_are_open_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLWEAVE_DATA_DIR", str(tmp_path))
    slot = RegistrySlot()
    as_many_as_may = asyncio.Barrier(MAX_OPEN_REGISTRIES)
    open_now = 0

    async def use() -> int:
        nonlocal open_now
        async with slot.open_registry() as registry:
            open_now += 1
            assert open_now <= MAX_OPEN_REGISTRIES
            await as_many_as_may.wait()
            total = (await registry.search(limit=1)).total
            open_now -= 1
        return total

    assert await asyncio.gather(*(use() for _ in range(5 * MAX_OPEN_REGISTRIES))) == [0] * 5 * MAX_OPEN_REGISTRIES


async def test_a_caller_that_is_cancelled_while_it_waits_takes_no_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLWEAVE_DATA_DIR", str(tmp_path))
    slot = RegistrySlot()
    release = asyncio.Event()
    all_open = asyncio.Barrier(MAX_OPEN_REGISTRIES + 1)

    async def hold() -> None:
        async with slot.open_registry():
            await all_open.wait()
            await release.wait()

    async with asyncio.TaskGroup() as group:
        for _ in range(MAX_OPEN_REGISTRIES):
            group.create_task(hold())
        await all_open.wait()
        cancelled = asyncio.create_task(hold())
        await asyncio.sleep(0)
        cancelled.cancel()
        release.set()
    for _ in range(MAX_OPEN_REGISTRIES + 1):
        async with slot.open_registry() as registry:
            assert await registry.list_all() == []
