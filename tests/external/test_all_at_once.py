"""Every external server at once, called by the agent over the served API; stopping leaves no process behind (C-09)."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.api.routes.conftest import wait_for_health
from tests.external.served import Served, descendants, serve_with, text_in
from tests.external.shipped import KEYS, plane_with, refusal, shipped_entries
from tests.external.stub_apis import StubApis
from tests.external.test_git import git
from tests.servers.connections.peers import is_running

pytestmark = [pytest.mark.external, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs" / "external-servers.md"
# Named on the page as what it is not offered with.
EXCLUDED = {"firecrawl_parse"}
EXTERNAL = tuple(name for name in shipped_entries() if name not in ("todo", "core"))


@pytest.fixture(scope="module")
def served(module_data_dir: Path, apis: StubApis) -> Iterator[Served]:
    folder = module_data_dir.parent / "work"
    folder.mkdir()
    git(folder, "init", "--quiet")
    env = {**KEYS, "FILESYSTEM_FOLDER": str(folder), "GIT_REPOSITORY": str(folder), "SUPABASE_API_URL": apis.url}
    # The pages are on this machine; the shipped configuration refuses these.
    changes = {"fetch": {"args": ["--allow-private-ips"]}}
    with serve_with(module_data_dir, *EXTERNAL, env=env, changes=changes) as served:
        yield served


def test_all_of_them_are_ready(served: Served) -> None:
    servers = wait_for_health(served.process, "ok")["servers"]
    assert len(EXTERNAL) == 11
    assert {name: servers[name]["state"] for name in EXTERNAL} == dict.fromkeys(EXTERNAL, "ready")
    assert all(servers[name]["tools"] for name in EXTERNAL)


def test_an_agent_asks_for_the_time_in_two_places(served: Served) -> None:
    nine = {"source_timezone": "Europe/Berlin", "time": "09:00", "target_timezone": "Asia/Tokyo"}
    now, converted = served.results_of(
        [("time_get_current_time", {"timezone": "Europe/Berlin"}), ("time_convert_time", nine)]
    )
    assert "Europe/Berlin" in text_in(now)
    assert "Asia/Tokyo" in text_in(converted)
    assert (now["status"], converted["status"]) == ("success", "success")


def test_an_agent_reads_a_page(served: Served, apis: StubApis, installed: Path) -> None:
    (page,) = served.results_of([("fetch", {"url": f"{apis.url}/page"})])
    assert page["status"] == "success", page
    assert "## Opening hours" in text_in(page)
    assert "<h2>" not in text_in(page)
    assert not list(installed.glob("fetch/lib/*/site-packages/readabilipy/javascript/node_modules"))


def test_an_agent_calls_the_server_that_shows_everything(served: Served) -> None:
    echoed, added, structured = served.results_of(
        [
            ("everything_echo", {"message": "Grüße"}),
            ("everything_get-sum", {"a": 2, "b": 40}),
            ("everything_get-structured-content", {"location": "Chicago"}),
        ]
    )
    assert "Echo: Grüße" in text_in(echoed)
    assert "42" in text_in(added)
    assert "humidity" in text_in(structured)
    assert structured["artifact"]["structured_content"]["humidity"] > 0


async def test_progress_of_a_long_tool_is_streamed(served: Served) -> None:
    events = await served.custom_events_of(
        [("everything_trigger-long-running-operation", {"duration": 0.4, "steps": 4})]
    )
    progress = [event for event in events if event["type"] == "tool_progress"]
    assert progress[-1]["progress"] == progress[-1]["total"] == 4
    assert [event["progress"] for event in progress] == sorted(event["progress"] for event in progress)


def test_an_agent_writes_thoughts_down(served: Served) -> None:
    thoughts = [
        {"thought": text, "thoughtNumber": number, "totalThoughts": 2, "nextThoughtNeeded": number < 2}
        for number, text in enumerate(("There are two shops.", "One is closed."), start=1)
    ]
    first, second = served.results_of(*([("thinking_sequentialthinking", thought)] for thought in thoughts))
    assert '"thoughtHistoryLength": 1' in text_in(first)
    assert '"thoughtHistoryLength": 2' in text_in(second)


def test_the_page_names_all_their_tools_and_no_others(served: Served) -> None:
    named = set(re.findall(r"`([\w-]+)`", PAGE.read_text(encoding="utf-8")))
    for name in EXTERNAL:
        details = httpx.get(f"{served.process.url}/servers/{name}", timeout=60).json()
        offered = {tool["name"] for tool in details["offers"]}
        assert offered - named == set(), name
        assert {each for each in named if each.startswith(f"{name}_")} - offered - EXCLUDED == set(), name


@pytest.mark.slow
def test_stopping_leaves_no_process_behind(served: Served) -> None:
    wait_for_health(served.process, "ok")
    started = descendants(served.process.pid)
    assert len(started) > len(EXTERNAL)
    assert served.process.stop() in (0, -signal.SIGTERM)
    assert [pid for pid in started if is_running(pid)] == []


async def test_a_page_on_this_machine_is_refused_as_it_is_shipped(data_dir: Path, apis: StubApis) -> None:
    async with plane_with("fetch", data_dir=data_dir) as plane:
        apis.requests.clear()
        message = await refusal(plane, "fetch", "fetch", url=f"{apis.url}/page")
    assert "private" in message
    assert apis.requests == []
