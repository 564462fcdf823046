"""Tools are registered, found, replaced and deleted; a write to an old revision is refused (W-01)."""

import asyncio
import re
from datetime import UTC, datetime, timedelta

import pytest

from tests.servers.registry.tools import many_tools, tool
from toolweave.errors import Conflict, NotFound, StaleRevision
from toolweave.servers.databases.database import open_database
from toolweave.servers.registry.repository import ToolRepository, open_registry_at
from toolweave.servers.registry.stored_tools import TOOLS_DATABASE, make_tool_id
from toolweave.tool_config import ToolConfig


async def test_a_tool_comes_back_as_it_was_registered_also_from_a_registry_opened_anew(url: str) -> None:
    config = ToolConfig.model_validate(
        {
            "tool_id": "place_order",
            "name": "Bestellung aufgeben 🛒",
            "description": "Legt eine Bestellung an.\nÄußerst eilig.",
            "api": {
                "base_url": "https://api.shop.example/v1",
                "path": "/orders/{order}",
                "method": "POST",
                "headers": {"X-Client": "a{env:TOOL_CLIENT}"},
                "auth": {"type": "bearer", "value": "a literal secret"},
                "timeout_s": 7.5,
            },
            "input_schema": {"type": "object", "properties": {"order": {"type": "string", "description": "\ud83d"}}},
            "output_schema": {"type": "object", "properties": {"id": {"type": "integer", "maximum": 10**40}}},
            "field_mappings": {"request": {"order": "path.order"}, "response": {"id": "$.id"}},
        }
    )
    async with open_registry_at(url) as registry:
        created = await registry.create(config)
    async with open_registry_at(url) as registry:
        assert await registry.get("place_order") == created
        assert await registry.find(["place_order"]) == {"place_order": config}
        assert (await registry.search(limit=1)).tools == [created]
        assert await registry.list_all() == [config]


@pytest.mark.requirement("W-03")
async def test_find_returns_the_registered_tools_in_the_order_of_the_ids(registry: ToolRepository) -> None:
    await registry.import_all(many_tools(2_500))
    wanted = [f"tool_{n}" for n in reversed(range(2_500))]
    odd = ["", "nobody", "TOOL_1", "tool_1\n", "tool_1' OR 1=1 --", "\ud800", "x" * 100_000, "tool_7"]
    assert list(await registry.find([*odd, *wanted, *wanted])) == ["tool_7", *(w for w in wanted if w != "tool_7")]
    assert await registry.find([]) == {}


async def test_each_of_hundreds_of_calls_at_once_gets_its_own_tool(registry: ToolRepository) -> None:
    await registry.import_all(many_tools(300))
    found = await asyncio.gather(*(registry.find([f"tool_{n % 300}", "nobody"]) for n in range(600)))
    assert [list(tools) for tools in found] == [[f"tool_{n % 300}"] for n in range(600)]


@pytest.mark.parametrize("tool_id", ["nobody", "GET_USER", "", "a b", "\ud800", "x" * 100_000])
async def test_an_unknown_id_is_none_or_not_found(registry: ToolRepository, tool_id: str) -> None:
    await registry.create(tool("get_user"))
    assert await registry.get(tool_id) is None
    with pytest.raises(NotFound):
        await registry.delete(tool_id)
    with pytest.raises(NotFound):
        await registry.replace(tool("get_user").model_copy(update={"tool_id": tool_id}))
    assert len(await registry.list_all()) == 1


async def test_a_taken_id_is_refused_in_any_case_and_the_tool_there_stays(registry: ToolRepository) -> None:
    created = await registry.create(tool("Get_User"))
    with pytest.raises(Conflict, match="registered as Get_User already"):
        await registry.create(tool("Get_User", name="Other"))
    with pytest.raises(Conflict, match="get_user differs only in case from Get_User"):
        await registry.create(tool("get_user"))
    assert (await registry.search(limit=9)).tools == [created]


async def test_tools_that_may_be_renamed_all_get_ids_of_their_own(url: str) -> None:
    async with open_registry_at(url) as one, open_registry_at(url) as other:
        made = await asyncio.gather(*(registry.create(tool("get_user"), rename=True) for registry in [one, other] * 5))
        ids = {registered.config.tool_id for registered in made}
        assert ids == {"get_user", *(f"get_user-{n}" for n in range(2, 11))}
        assert {config.tool_id for config in await other.list_all()} == ids


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Get user", "get_user"),
        ("  GET  /users/{id} ", "get_users_id"),
        ("Straße größer", "strasse_grosser"),
        ("Export", "export-2"),
        ("a" * 63 + " b", "a" * 63),
        ("Получить пользователя", "tool_[0-9a-f]{12}"),
        ("\ud800", "tool_[0-9a-f]{12}"),
        ("", "tool_[0-9a-f]{12}"),
    ],
)
async def test_an_id_is_made_of_any_name(registry: ToolRepository, name: str, expected: str) -> None:
    tool_id = make_tool_id(name)
    assert re.fullmatch(expected, tool_id)
    assert tool_id != make_tool_id("Список")
    await registry.create(tool(tool_id))
    assert (await registry.create(tool(tool_id), rename=True)).config.tool_id.lower() != tool_id


async def test_a_replaced_tool_keeps_when_it_was_created_and_gets_a_new_revision(url: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    async with open_database(url, TOOLS_DATABASE) as database:
        registry = ToolRepository(database, clock=lambda: now)
        created = await registry.create(tool("get_user"))
        now += timedelta(days=1)
        replaced = await registry.replace(tool("get_user", name="Other"), revision=created.revision)
        assert await registry.get("get_user") == replaced
    assert (created.created_at, created.updated_at) == ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z")
    assert (replaced.created_at, replaced.updated_at) == ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")
    assert replaced.revision > created.revision
    assert replaced.config.name == "Other"


async def test_a_write_to_an_old_revision_is_refused_even_after_the_tool_was_deleted(registry: ToolRepository) -> None:
    created = await registry.create(tool("get_user"))
    replaced = await registry.replace(tool("get_user", name="Other"))
    with pytest.raises(StaleRevision, match=f"revision is {replaced.revision}, not {created.revision}"):
        await registry.replace(tool("get_user", name="Lost"), revision=created.revision)
    with pytest.raises(StaleRevision):
        await registry.delete("get_user", revision=created.revision)
    assert await registry.get("get_user") == replaced
    await registry.delete("get_user", revision=replaced.revision)
    assert await registry.get("get_user") is None
    again = await registry.create(tool("get_user"))
    with pytest.raises(StaleRevision):
        await registry.delete("get_user", revision=replaced.revision)
    assert again.revision > replaced.revision


@pytest.mark.parametrize("operation", ["create", "replace"])
async def test_of_many_concurrent_writes_of_one_id_exactly_one_succeeds(url: str, operation: str) -> None:
    async with open_registry_at(url) as one, open_registry_at(url) as other:
        revision = (await one.create(tool("get_user"))).revision if operation == "replace" else None

        async def write(registry: ToolRepository, name: str) -> str | None:
            config = tool("get_user", name=name)
            try:
                await (registry.create(config) if revision is None else registry.replace(config, revision=revision))
            except (Conflict, StaleRevision):
                return None
            return name

        outcomes = await asyncio.gather(*(write(r, f"By {n}") for n, r in enumerate([one, other] * 10)))
        stored = await one.get("get_user")
        assert stored
        assert [name for name in outcomes if name] == [stored.config.name]
