"""Firecrawl and Supabase against a stand-in for their APIs, and Brave without its key (C-09)."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.external.shipped import KEYS, answer, configs_of, offered, plane_with, refusal
from tests.external.stub_apis import PAGE, PROJECT, StubApis
from toolweave.servers.connections.plane import ToolPlane

pytestmark = [pytest.mark.external, pytest.mark.slow]

URL = "https://shop.example/hours"


@pytest.fixture(autouse=True)
def forget_requests(apis: StubApis) -> None:
    apis.requests.clear()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(module_data_dir: Path, apis: StubApis) -> AsyncIterator[ToolPlane]:
    env = {name: value for name, value in KEYS.items() if name != "BRAVE_API_KEY"}
    env["SUPABASE_API_URL"] = apis.url
    firecrawl: dict[str, Any] = {"env": {"FIRECRAWL_API_KEY": "{env:FIRECRAWL_API_KEY}", "FIRECRAWL_API_URL": apis.url}}
    names = ("firecrawl", "supabase", "brave")
    async with plane_with(*names, data_dir=module_data_dir, env=env, changes={"firecrawl": firecrawl}) as plane:
        yield plane


@pytest.mark.requirement("C-09")
async def test_firecrawl_reads_a_page_with_the_key(plane: ToolPlane, apis: StubApis) -> None:
    text = await answer(plane, "firecrawl", "firecrawl_scrape", url=URL, formats=["markdown"])
    assert PAGE.partition("\n")[0] in text
    (request,) = apis.requests
    assert (request.method, request.path, request.body["url"]) == ("POST", "/v2/scrape", URL)
    assert request.authorization == f"Bearer {KEYS['FIRECRAWL_API_KEY']}"


async def test_firecrawl_is_not_offered_with_the_tool_that_reads_files_of_this_machine(plane: ToolPlane) -> None:
    names = await offered(plane, "firecrawl")
    assert "firecrawl_parse" not in names
    assert {"firecrawl_scrape", "firecrawl_search", "firecrawl_map", "firecrawl_crawl"} <= set(names)


@pytest.mark.requirement("C-09")
async def test_supabase_lists_projects_with_the_token(plane: ToolPlane, apis: StubApis) -> None:
    assert PROJECT["name"] in await answer(plane, "supabase", "list_projects")
    assert [(request.method, request.path, request.authorization) for request in apis.requests] == [
        ("GET", "/v1/projects", f"Bearer {KEYS['SUPABASE_ACCESS_TOKEN']}")
    ]


@pytest.mark.requirement("C-09")
async def test_supabase_runs_sql_and_asks_for_a_read_only_transaction(plane: ToolPlane, apis: StubApis) -> None:
    query = "select * from fruits"
    text = await answer(plane, "supabase", "execute_sql", project_id=PROJECT["ref"], query=query)
    assert "apples" in text
    assert "pears" in text
    (request,) = apis.requests
    assert request.path == f"/v1/projects/{PROJECT['ref']}/database/query"
    assert request.body == {"query": query, "read_only": True}


async def test_an_error_of_the_database_behind_supabase_reaches_the_model(plane: ToolPlane) -> None:
    query = "select * from no_such_table"
    text = await refusal(plane, "supabase", "execute_sql", project_id=PROJECT["ref"], query=query)
    assert "does not exist" in text


async def test_supabase_refuses_what_changes_a_project(plane: ToolPlane, apis: StubApis) -> None:
    change = {"project_id": PROJECT["ref"], "name": "drop", "query": "drop table fruits"}
    assert "read-only" in await refusal(plane, "supabase", "apply_migration", **change)
    assert apis.requests == []


@pytest.mark.requirement("C-09")
async def test_without_its_key_brave_is_misconfigured_and_the_others_are_as_they_were(plane: ToolPlane) -> None:
    health = plane.health()
    assert (health["brave"]["state"], health["brave"]["tools"]) == ("misconfigured", 0)
    assert "BRAVE_API_KEY" in str(health["brave"]["last_error"])
    assert {health[name]["state"] for name in ("firecrawl", "supabase")} == {"ready"}


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("firecrawl", "FIRECRAWL_API_KEY"),
        ("brave", "BRAVE_API_KEY"),
        ("supabase", "SUPABASE_ACCESS_TOKEN"),
        ("filesystem", "FILESYSTEM_FOLDER"),
        ("git", "GIT_REPOSITORY"),
        ("git-files", "GIT_REPOSITORY"),
    ],
)
def test_an_enabled_server_that_lacks_its_variable_names_it(tmp_path: Path, name: str, variable: str) -> None:
    (server,) = configs_of(tmp_path, name, env={}, changes=None)
    assert server.misconfigured == (
        f"environment variable {variable} is not set: set it, or give a default with {{env:{variable}:-default}}."
    )


async def test_with_a_key_brave_offers_its_tools(data_dir: Path) -> None:
    async with plane_with("brave", data_dir=data_dir, env=KEYS) as plane:
        assert {"brave_web_search", "brave_news_search"} <= set(await offered(plane, "brave"))
