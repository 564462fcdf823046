"""The script of a page by a call from Python: its result, its progress, and how it fails (A-04)."""

import asyncio
import itertools
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.fixtures.logged import logged
from tests.fixtures.openai_wire import MAX_WAIT_S, WireServer, WireTurn, openai_wire
from tests.fixtures.web_pages import WebPages
from tests.graphs.script_agent import BEES, DONE, FETCHING, asks, fetching
from tests.nodes.model_at import calling
from tests.nodes.script.writing import script
from toolweave import (
    VideoScript,
    generate_script_from_url,
    generate_script_from_url_sync,
    generate_script_from_url_with_agent,
    generate_script_from_url_with_agent_sync,
)
from toolweave.config.mcp import McpConfig
from toolweave.config.script_settings import ScriptSettings
from toolweave.errors import ConfigError, FetchFailed, MissingVariable, ScriptFailed, ScriptNotSaved, StageFailed
from toolweave.nodes.offline_model.model import OfflineChatModel

BOUND_S = 60.0
WRITTEN = VideoScript.model_validate(script())
ENTRY = {"command": sys.executable, "args": [FETCHING, "--only", "read"], "timeout_s": 60}


@pytest.fixture
def wire(site: WebPages, monkeypatch: pytest.MonkeyPatch) -> Iterator[WireServer]:
    """Serve a scripted model, and name it in the environment; it writes the script unless a test says otherwise."""
    with openai_wire([calling(script())], repeat=True, keep_alive=True) as server:
        for name in ("OPENROUTER_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("TOOLWEAVE_MODEL", "m")
        monkeypatch.setenv("TOOLWEAVE_OUTBOUND_ALLOW", "127.0.0.1")
        # A job of the server's would fail with these.
        monkeypatch.setenv("CONFIG_PATH", "/no/such/config.yaml")
        monkeypatch.setenv("MCP_CONFIG_PATH", "/no/such/mcp.jsonc")
        yield server


class Progress:
    """Record the calls of on_progress."""

    def __init__(self) -> None:
        self.percents: list[float] = []
        self.messages: list[str] = []

    def __call__(self, percent: float, message: str) -> None:
        self.percents.append(percent)
        self.messages.append(message)

    def check(self) -> None:
        assert (self.percents[0], self.percents[-1]) == (0.0, 100.0)
        assert self.percents.count(100.0) == 1
        assert all(before <= after for before, after in itertools.pairwise(self.percents))
        assert all(self.messages)


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.requirement("A-04")
async def test_a_page_becomes_a_script_and_a_file_by_the_arguments_only(
    site: WebPages, wire: WireServer, tmp_path: Path
) -> None:
    progress, folder = Progress(), tmp_path / "new" / "folder"
    klingon = ScriptSettings(language="Klingon")

    written = await generate_script_from_url(
        site.page("news.html"), config=klingon, output_dir=folder, on_progress=progress
    )

    assert written == WRITTEN
    assert names_in(folder) == ["script.yaml"]
    assert VideoScript.model_validate(yaml.safe_load((folder / "script.yaml").read_text(encoding="utf-8"))) == WRITTEN
    progress.check()
    assert site.requests == ["/robots.txt", "/pages/news.html"]
    assert "the bell rang" in str(wire.requests[0].messages[1])
    assert "Klingon" in str(wire.requests[0].messages[0])


async def test_settings_may_be_a_file_and_on_progress_a_coroutine(
    site: WebPages, wire: WireServer, tmp_path: Path
) -> None:
    progress = Progress()

    async def slowly(percent: float, message: str) -> None:
        await asyncio.sleep(0)
        progress(percent, message)

    file = tmp_path / "script.yaml"
    file.write_text("language: Latin\nnarration: {character: A Roman senator}\n", encoding="utf-8")
    assert await generate_script_from_url(site.page("news.html"), config=str(file), on_progress=slowly) == WRITTEN
    progress.check()
    system = str(wire.requests[0].messages[0]["content"])
    assert "Latin" in system
    assert "A Roman senator" in system


async def test_two_at_once_do_not_mix(site: WebPages, wire: WireServer, tmp_path: Path) -> None:
    names = ("news.html", "blog.html")
    recorders = [Progress(), Progress()]
    written = await asyncio.gather(
        *(
            generate_script_from_url(
                site.page(name), output_dir=tmp_path / name, on_progress=on_progress, model=OfflineChatModel()
            )
            for name, on_progress in zip(names, recorders, strict=True)
        )
    )
    assert written[0].title != written[1].title
    for name, one, progress in zip(names, written, recorders, strict=True):
        progress.check()
        assert any(name in message for message in progress.messages)
        stored = yaml.safe_load((tmp_path / name / "script.yaml").read_text(encoding="utf-8"))
        assert VideoScript.model_validate(stored) == one
    assert wire.requests == []


def test_without_an_event_loop_the_sync_form_does_the_same_again_and_a_failing_on_progress_costs_no_script(
    site: WebPages, wire: WireServer, tmp_path: Path
) -> None:
    progress, failed = Progress(), Progress()

    def failing(percent: float, message: str) -> None:
        failed(percent, message)
        raise OSError("the pipe is closed")

    with logged(format="{message} {exception}") as lines:
        for on_progress in (progress, failing):
            assert generate_script_from_url_sync(site.page("news.html"), on_progress=on_progress) == WRITTEN
    progress.check()
    assert failed.percents == [0.0]
    assert len(lines) == 1
    assert "the pipe is closed" in lines[0]
    with pytest.raises(FetchFailed, match="404 Not Found"):
        generate_script_from_url_sync(site.url + "/status/404", output_dir=tmp_path)
    assert names_in(tmp_path) == []


async def test_inside_an_event_loop_the_sync_forms_are_refused_with_advice() -> None:
    with pytest.raises(RuntimeError, match=r"await generate_script_from_url\(…\)"):
        generate_script_from_url_sync("https://site.example/")
    with pytest.raises(RuntimeError, match=r"await generate_script_from_url_with_agent\(…\)"):
        generate_script_from_url_with_agent_sync("https://site.example/", mcp_config="mcp.jsonc")


async def test_a_script_whose_folder_went_meanwhile_is_not_lost(
    site: WebPages, wire: WireServer, tmp_path: Path
) -> None:
    folder = tmp_path / "gone"
    progress = Progress()

    def losing(percent: float, message: str) -> None:
        progress(percent, message)
        shutil.rmtree(folder, ignore_errors=True)

    with pytest.raises(ScriptNotSaved, match=r"gone/script\.yaml could not be written .No such file") as failure:
        await generate_script_from_url(site.page("news.html"), output_dir=folder, on_progress=losing)
    assert failure.value.script == WRITTEN
    assert max(progress.percents) < 100.0


async def test_an_old_file_stays_whole_when_a_new_script_is_cancelled_or_fails(
    site: WebPages, wire: WireServer, tmp_path: Path
) -> None:
    old = tmp_path / "script.yaml"
    old.write_text("title: Old\n", encoding="utf-8")
    wire.turns[:] = [WireTurn(text="Slowly", silent_after=2)]
    going = asyncio.create_task(generate_script_from_url(site.page("news.html"), output_dir=tmp_path))
    await asyncio.to_thread(wire.requested.wait, BOUND_S)
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    assert await asyncio.to_thread(wire.left.wait, MAX_WAIT_S)
    wire.turns[:] = [calling({"title": "No script"})]
    with pytest.raises(ScriptFailed, match="did not write a valid script"):
        await generate_script_from_url(site.page("news.html"), output_dir=tmp_path)
    assert names_in(tmp_path) == ["script.yaml"]
    assert old.read_text(encoding="utf-8") == "title: Old\n"


async def test_a_wrong_argument_fails_before_any_request(
    site: WebPages, wire: WireServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings, page = tmp_path / "settings.yaml", site.page("news.html")
    settings.write_text("sections: {min: many}\n", encoding="utf-8")
    (tmp_path / "taken" / "script.yaml").mkdir(parents=True)

    with pytest.raises(ConfigError, match=r"settings\.yaml:1: sections\.min"):
        await generate_script_from_url(page, config=settings)
    with pytest.raises(ConfigError, match="the folder is not writable"):
        await generate_script_from_url(page, output_dir=settings / "deeper")
    with pytest.raises(ConfigError, match="is a folder"):
        await generate_script_from_url(page, output_dir=tmp_path / "taken")
    with pytest.raises(StageFailed, match="url must"):
        await generate_script_from_url("site.example/bees")
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.delenv("TOOLWEAVE_MODEL")
    with pytest.raises(ConfigError, match=r"OPENROUTER_API_KEY.*TOOLWEAVE_MODEL=offline"):
        await generate_script_from_url(page)
    assert (site.requests, wire.requests) == ([], [])


@pytest.mark.requirement("A-04")
async def test_an_agent_fetches_with_the_servers_of_a_loaded_file(wire: WireServer, tmp_path: Path) -> None:
    progress = Progress()
    loaded = McpConfig((fetching("web", "read"),), Path("mcp.jsonc"))
    wire.turns[:] = [asks(("web_read", {"url": BEES})), DONE, calling(script())]

    written = await generate_script_from_url_with_agent(
        BEES, mcp_config=loaded, on_progress=progress, output_dir=tmp_path / "out"
    )

    assert written == WRITTEN
    assert (tmp_path / "out" / "script.yaml").is_file()
    progress.check()
    assert wire.requests[0].tool_names == ["web_read"]


def test_servers_are_given_as_a_mapping_too_and_without_an_event_loop(
    wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FETCHING_TOOL", "read")
    written = {"servers": {"web": {**ENTRY, "args": [FETCHING, "--only", "{env:FETCHING_TOOL}"]}}}
    wire.turns[:] = [asks(("web_read", {"url": BEES})), DONE, calling(script())]
    assert generate_script_from_url_with_agent_sync(BEES, mcp_config=written) == WRITTEN
    assert wire.requests[0].tool_names == ["web_read"]


async def test_servers_that_cannot_be_used_fail_the_job_by_their_names(wire: WireServer) -> None:
    unset = {"mcpServers": {"web": {**ENTRY, "env": {"KEY": "{env:SURELY_NOT_SET}"}}}}
    with pytest.raises(MissingVariable, match="mcp_config: environment variable SURELY_NOT_SET is not set"):
        await generate_script_from_url_with_agent(BEES, mcp_config=unset)
    for bad, problem in (
        ({}, "mcp_config: has neither mcpServers nor servers"),
        ({"mcpServers": {"web": {"comand": "x"}}}, "mcp_config: server 'web'"),
        ({"mcpServers": {"web": {**ENTRY, "enabled": False}}}, "mcp_config: enables no MCP server"),
        ({"mcpServers": {"web": {**ENTRY, "cwd": Path("/")}}}, "mcp_config: is not valid JSON"),
        ("/no/such/mcp.jsonc", r"/no/such/mcp\.jsonc: the file does not exist"),
    ):
        with pytest.raises(ConfigError, match=problem):
            await generate_script_from_url_with_agent(BEES, mcp_config=bad)
    broken = McpConfig((fetching("web", misconfigured="its key is not set."),), Path("mine.jsonc"))
    with pytest.raises(ConfigError, match=r"mine\.jsonc: server 'web': its key is not set"):
        await generate_script_from_url_with_agent(BEES, mcp_config=broken)
    with pytest.raises(FetchFailed, match="gone"):
        await generate_script_from_url_with_agent(BEES, mcp_config={"servers": {"gone": {"command": "/no/such"}}})
    assert wire.requests == []
