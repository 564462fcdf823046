"""Many tools are written together or not at all, with a report of what became of each (W-01)."""

import pytest

from tests.servers.registry.tools import many_tools, tool
from toolweave.errors import Conflict
from toolweave.servers.registry.repository import ImportReport, OnConflict, ToolRepository

MODES = ("error", "replace", "skip")


@pytest.mark.parametrize("mode", MODES)
async def test_new_tools_are_created_whatever_the_mode(registry: ToolRepository, mode: OnConflict) -> None:
    report = await registry.import_all(many_tools(3), on_conflict=mode)
    assert report == ImportReport(created=["tool_0", "tool_1", "tool_2"], replaced=[], skipped=[])
    assert await registry.list_all() == many_tools(3)
    assert await registry.import_all([], on_conflict=mode) == ImportReport([], [], [])


async def test_taken_ids_are_refused_replaced_or_skipped_according_to_the_mode(registry: ToolRepository) -> None:
    mine = await registry.create(tool("tool_1", name="Mine"))
    with pytest.raises(Conflict, match=r"tool_1\.$"):
        await registry.import_all(many_tools(3))
    assert [config.name for config in await registry.list_all()] == ["Mine"]
    report = await registry.import_all(many_tools(3), on_conflict="skip")
    assert report == ImportReport(created=["tool_0", "tool_2"], replaced=[], skipped=["tool_1"])
    assert await registry.get("tool_1") == mine
    report = await registry.import_all(many_tools(4), on_conflict="replace")
    assert report == ImportReport(created=["tool_3"], replaced=["tool_0", "tool_1", "tool_2"], skipped=[])
    replaced = await registry.get("tool_1")
    assert replaced
    assert replaced.config.name == "Tool 1"
    assert replaced.created_at == mine.created_at
    assert replaced.revision > mine.revision


@pytest.mark.parametrize("mode", ["error", "replace"])
async def test_an_id_that_is_taken_in_another_case_is_refused(registry: ToolRepository, mode: OnConflict) -> None:
    await registry.create(tool("Tool_1"))
    with pytest.raises(Conflict, match="tool_1"):
        await registry.import_all(many_tools(3), on_conflict=mode)
    assert len(await registry.list_all()) == 1


@pytest.mark.parametrize("mode", MODES)
async def test_an_id_that_comes_twice_is_refused_in_any_mode(registry: ToolRepository, mode: OnConflict) -> None:
    with pytest.raises(Conflict, match=r"more than once .*: tool_0, Tool_0\.$"):
        await registry.import_all([*many_tools(2), tool("Tool_0")], on_conflict=mode)
    assert await registry.list_all() == []


async def test_a_refusal_names_the_first_twenty_ids_and_counts_the_rest(registry: ToolRepository) -> None:
    await registry.import_all(many_tools(1_500))
    with pytest.raises(Conflict, match=r"tool_0, .*tool_19 and 1480 more\.$"):
        await registry.import_all(many_tools(1_500))


async def test_an_import_that_is_based_on_an_old_revision_is_refused(registry: ToolRepository) -> None:
    async def revisions() -> dict[str, int]:
        found = await registry.find_registered(["tool_0", "tool_1"])
        return {tool_id: tool.revision for tool_id, tool in found.items()}

    await registry.import_all(many_tools(2))
    first = await revisions()
    await registry.replace(tool("tool_1", name="Mine"))
    second = await revisions()
    for known in (first, second):
        if known is second:
            await registry.delete("tool_1")
        before = await registry.list_all()
        with pytest.raises(Conflict, match="tool_1"):
            await registry.import_all(many_tools(3), on_conflict="replace", revisions=known)
        assert await registry.list_all() == before
    await registry.import_all(many_tools(3), on_conflict="replace", revisions=await revisions())
    assert await registry.list_all() == many_tools(3)
