"""`toolweave script`: a page becomes a script at the terminal, without a server (A-04, A-05)."""

import json
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from rich.text import Text

from tests.cli.command import Ended, started, toolweave
from tests.fixtures.openai_wire import WireServer, WireTurn, openai_wire
from tests.fixtures.web_pages import WebPages, web_pages
from tests.graphs.script_agent import BEES, DONE, FETCHING, asks
from tests.nodes.model_at import calling
from tests.nodes.script.writing import script
from toolweave.cli.terminal import sanitized_json, script_paragraphs
from toolweave.config.script_settings import Persona
from toolweave.nodes.script.script_file import Narration, ScriptSection, VideoScript

BOUND_S = 60.0
WRITTEN = VideoScript.model_validate(script())


@pytest.fixture(scope="module")
def site() -> Iterator[WebPages]:
    with web_pages() as pages:
        yield pages


@pytest.fixture
def wire(site: WebPages) -> Iterator[WireServer]:
    """Serve a model that writes the script, unless a test sets other turns."""
    site.forget()
    with openai_wire([calling(script())], repeat=True) as server:
        yield server


def write(wire: WireServer, cwd: Path, *args: str, env: Mapping[str, str] | None = None) -> Ended:
    return toolweave("script", *args, cwd=cwd, env=environ(wire, env))


def environ(wire: WireServer, env: Mapping[str, str] | None = None) -> dict[str, str]:
    known = {"OPENAI_BASE_URL": wire.base_url, "TOOLWEAVE_MODEL": "m", "TOOLWEAVE_OUTBOUND_ALLOW": "127.0.0.1"}
    return {**known, **(env or {})}


@pytest.mark.requirement("A-04")
def test_it_prints_the_script_to_read_and_keeps_it_as_a_file(site: WebPages, wire: WireServer, tmp_path: Path) -> None:
    settings = tmp_path / "script.yaml"
    settings.write_text("narration: {character: A calm teacher}\nlanguage: German\n", encoding="utf-8")

    ended = write(
        *(wire, tmp_path, site.page("news.html"), "-o", "out", "--config", "script.yaml", "--language", "Latin"),
        env={"CONFIG_PATH": "absent.yaml"},
    )

    assert ended.code == 0, ended.stderr
    assert ended.stdout.splitlines()[:7] == [
        "Bees",
        "",
        "How bees live.",
        "",
        "1. Part 1",
        "",
        WRITTEN.sections[0].narrations[0].text,
    ]
    written = (tmp_path / "out" / "script.yaml").read_text(encoding="utf-8")
    assert VideoScript.model_validate(yaml.safe_load(written)) == WRITTEN
    progress = [line.partition(" %  ") for line in ended.stderr.splitlines()]
    assert (progress[0][0], progress[-1][0]) == ("  0", "100")
    assert all(mark and message for _, mark, message in progress)
    system = str(wire.requests[0].messages[0]["content"])
    assert "A calm teacher" in system
    assert "Latin" in system


def test_on_a_terminal_a_bar_on_stderr_shows_how_far_it_is_and_is_gone_in_the_end(
    site: WebPages, wire: WireServer, tmp_path: Path
) -> None:
    url = f"{site.page('letter.txt')}?{'long' * 30}"
    site.answers[url.removeprefix(site.url)] = site.answer("/pages/letter.txt")

    ended = write(wire, tmp_path, url, env={"TTY_COMPATIBLE": "1", "TERM": "xterm", "COLUMNS": "80"})

    assert ended.code == 0, ended.stderr
    drawn = Text.from_ansi(ended.stderr).plain
    assert re.search(r"━+ +2% Fetching http://127", drawn), drawn
    assert re.search(r"━+ +100% The script is ready: 3 sections", drawn), drawn
    assert ended.stderr.endswith("\x1b[1A\x1b[2K")
    assert "━" not in ended.stdout
    assert WRITTEN.title in ended.stdout


def test_an_agent_fetches_with_the_servers_that_dotenv_names_and_only_json_is_on_stdout(
    wire: WireServer, tmp_path: Path
) -> None:
    wire.turns[:] = [asks(("web_read", {"url": BEES})), DONE, calling(script())]
    entry = {"command": sys.executable, "args": [FETCHING, "--only", "read"], "timeout_s": 60}
    (tmp_path / "mcp.jsonc").write_text(json.dumps({"mcpServers": {"web": entry}}), encoding="utf-8")

    (tmp_path / ".env").write_text("MCP_CONFIG_PATH=mcp.jsonc\n", encoding="utf-8")

    ended = write(wire, tmp_path, BEES, "--json")

    assert ended.code == 0, ended.stderr
    assert VideoScript.model_validate(json.loads(ended.stdout)) == WRITTEN
    assert wire.requests[0].tool_names == ["web_read"]


@pytest.mark.requirement("A-05")
def test_an_error_is_one_paragraph_with_the_fix(site: WebPages, wire: WireServer, tmp_path: Path) -> None:
    page = site.page("news.html")
    (tmp_path / "file").touch()
    keyless = {"OPENAI_BASE_URL": "", "TOOLWEAVE_MODEL": ""}
    cases: list[tuple[tuple[str, ...], dict[str, str], str]] = [
        ((page,), keyless, "Configuration error: No model is configured"),
        ((page,), {"CONFIG_PATH": "no.yaml"}, f"Configuration error: CONFIG_PATH ({tmp_path}/no.yaml): the file does"),
        ((page, "--mcp-config", "no.jsonc"), {}, "Configuration error: no.jsonc: the file does not exist."),
        ((page, "-o", "file/out"), {}, "Configuration error: file/out: the folder is not writable (Not a dir"),
        (("site.example",), {}, "Error: The script cannot be started: url must be the URL of a page"),
    ]
    for args, env, beginning in cases:
        ended = write(wire, tmp_path, *args, env=env)
        assert (ended.code, ended.stdout) == (1, "")
        assert ended.paragraph.startswith(beginning)
        assert ("TOOLWEAVE_MODEL=offline" in ended.paragraph) == (env == keyless)
    missing = write(wire, tmp_path, site.url + "/status/404", "-o", "out")
    assert (missing.code, missing.stdout) == (1, "")
    assert missing.stderr.splitlines()[-1].startswith("Fetch failed: The page ")
    assert "404 Not Found" in missing.stderr
    assert (wire.requests, list((tmp_path / "out").iterdir())) == ([], [])


def test_an_interrupt_ends_it_and_leaves_nothing_half_written(site: WebPages, wire: WireServer, tmp_path: Path) -> None:
    wire.turns[:] = [WireTurn(text="Slowly", silent_after=2)]
    with started("script", site.page("news.html"), "-o", "out", cwd=tmp_path, env=environ(wire)) as running:
        assert wire.requested.wait(BOUND_S)
        ended = running.signalled(signal.SIGINT)
    assert (ended.code, ended.stdout) == (130, "")
    assert "Traceback" not in ended.stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_the_document_names_speakers_and_shows_no_control_characters() -> None:
    narrations = (Narration(text="Hello.\x1b[2J", persona_id="host"), Narration(text="Yes.", persona_id="nobody"))
    section = ScriptSection(title="One\nand more", narrations=narrations, slide_prompt="A bee")
    paragraphs = script_paragraphs(
        VideoScript(title="Bees", description="All.", sections=(section,)), [Persona(id="host", name="Mika")]
    )
    assert [part.plain for part in paragraphs if part != Text()] == [
        *("Bees", "All.", "1. One\nand more", "Mika: Hello.�[2J", "nobody: Yes.", "Slide: A bee")
    ]


def test_json_escapes_what_a_terminal_would_obey_and_loses_nothing() -> None:
    value = {"text": "a\x1b[2J\u202eb\x9b蜂\U000e0041\n"}
    shown = sanitized_json(value)
    assert json.loads(shown) == value
    assert shown == '{\n  "text": "a\\u001b[2J\\u202eb\\u009b蜂\\udb40\\udc41\\n"\n}'
