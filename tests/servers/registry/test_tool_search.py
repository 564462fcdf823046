"""Tools are found by words in any script and case; a listing can be paged through (W-01)."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from tests.servers.registry.conftest import DATABASES
from tests.servers.registry.tools import many_tools, registry_url, tool
from toolweave.servers.registry.repository import ToolRepository, open_registry_at

CATALOG = [
    tool("get_user", name="Get user", description="Gets one user.", path="/people/{id}"),
    tool("user", name="Everything about people", description="Reads a person.", path="/people/{id}", method="PUT"),
    tool("delete_account", name="Delete account", description="Removes a user.", path="/a/{id}", method="DELETE"),
    tool("street", name="Große Straße", description="Sucht Straßen.", path="/s/{id}"),
    tool("zakaz", name="Получить ЗАКАЗ", description="İstanbul'da", path="/z/{id}"),
    tool("discount", name="50% off_price", description="A\\B /slash*", path="/d/{id}"),
    tool("wide", name="ＦＵＬＬ width", description="ﬁnd", path="/w/{id}"),
    tool("orders", name="List orders", description="All of them.", path="/v2/Bestellungen/{id}", method="POST"),
]
ALL_IDS = sorted(config.tool_id for config in CATALOG)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=DATABASES)
async def catalog(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ToolRepository]:
    async with AsyncExitStack() as stack:
        url = registry_url(tmp_path_factory.mktemp("catalog"))
        if request.param == "postgresql":
            url = stack.enter_context(request.getfixturevalue("postgres").fresh_database())
        registry = await stack.enter_async_context(open_registry_at(url))
        await registry.import_all(CATALOG)
        yield registry


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("user", ["user", "get_user", "delete_account"]),
        ("USER get", ["get_user"]),
        ("GET_USER", ["get_user"]),
        ("  get_user\n", ["get_user"]),
        ("account removes", ["delete_account"]),
        ("strasse GROSSE", ["street"]),
        ("заказ", ["zakaz"]),
        ("full find", ["wide"]),
        ("ﬀ", ["discount"]),
        ("bestellungen", ["orders"]),
        ("post", ["orders"]),
        ("user orders", []),
        ("get_userget", []),  # across two fields
        # No character has a meaning of its own.
        ("50%", ["discount"]),
        ("f_p", ["discount"]),
        ("a\\b", ["discount"]),
        ("*", ["discount"]),
        ("'", ["zakaz"]),
        ("%%", []),
        ("g_t", []),
        ("' OR 1=1 --", []),
        ("user\0nothing", []),
        ("\ud800", []),
        pytest.param("x" * 100_000, [], id="one long word"),
        pytest.param("% " * 40_000, ["discount"], id="many words"),
        # A query without words lists every tool.
        (None, ALL_IDS),
        (" \t", ALL_IDS),
        ("\0", ALL_IDS),
    ],
)
async def test_a_tool_is_found_when_it_has_every_word_in_any_case(
    catalog: ToolRepository, query: str | None, expected: list[str]
) -> None:
    page = await catalog.search(query, limit=100)
    assert page.total == len(page.tools)
    assert [registered.config.tool_id for registered in page.tools] == expected


async def test_five_thousand_tools_are_paged_through_without_gap_or_repetition(registry: ToolRepository) -> None:
    await registry.import_all(many_tools(5_000))
    for query, count in (("tool", 5_000), ("TOOL 77", sum("77" in str(n) for n in range(5_000)))):
        pages = [await registry.search(query, limit=1_500, offset=offset) for offset in range(0, 5_000, 1_500)]
        ids = [registered.config.tool_id for page in pages for registered in page.tools]
        assert {page.total for page in pages} == {count}
        assert len(set(ids)) == len(ids) == count
    beyond = await registry.search("tool", limit=10, offset=6_000)
    assert (beyond.tools, beyond.total) == ([], 5_000)
    first = await registry.search("tool_77", limit=1)
    assert [registered.config.tool_id for registered in first.tools] == ["tool_77"]
