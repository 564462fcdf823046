"""docs/script-writer.md is true: its examples run, its settings and limits are those of the code."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel
from typing_extensions import TypedDict

import toolweave
from tests.fixtures.doc_pages import DOCS, code_blocks, run_example
from tests.fixtures.logged import logged
from tests.fixtures.openai_wire import openai_wire
from tests.fixtures.scripted_model import ScriptedModel
from tests.fixtures.scripted_model import calling as scripted_call
from tests.fixtures.web_pages import web_pages
from tests.graphs.script_agent import DONE, FETCHING, asks
from tests.nodes.model_at import calling
from tests.nodes.script.writing import script
from toolweave.cli.script import script as command
from toolweave.config.script_settings import ScriptSettings, load_script_settings
from toolweave.graphs import served
from toolweave.graphs.script_writer import AgentFetch
from toolweave.nodes.script import extraction
from toolweave.nodes.script.fetching import fetch_plain
from toolweave.nodes.script.fetching.fetch_plain import MAX_REDIRECTS
from toolweave.nodes.script.state import ScriptOutput, ScriptSource

PAGE = (DOCS / "script-writer.md").read_text(encoding="utf-8")


def rows(heading: str) -> dict[str, str]:
    """Give the first two columns of a table."""
    table = PAGE.partition(f"| {heading} |")[2].partition("\n\n")[0]
    cells = [line.strip("|").split(" | ") for line in table.splitlines()[2:]]
    return {first.strip(" `"): second.strip(" `|") for first, second, *_ in cells}


def settings_of(model: BaseModel, under: str = "") -> dict[str, str]:
    """Give every setting with its default as the page writes it; `personas` are a list of their own."""
    found: dict[str, str] = {}
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            found |= settings_of(value, f"{name}.")
        else:
            found[f"{under}{name}"] = f"{value:g}" if isinstance(value, int | float) else str(value or "")
    return found


def test_its_table_has_every_setting_with_its_default() -> None:
    unset = ("empty", "none", "the process's", "the process's, `TOOLWEAVE_MODEL")
    defaults = {key: "" if default in unset else default for key, default in rows("key | default").items()}
    assert defaults == settings_of(ScriptSettings())


def test_its_settings_file_loads_without_a_warning(tmp_path: Path) -> None:
    (block,) = code_blocks(PAGE, "yaml")
    file = tmp_path / "script.yaml"
    file.write_text(block, encoding="utf-8")
    with logged() as warnings:
        settings = load_script_settings(file, {})
    assert warnings == []
    assert [persona.name for persona in settings.personas] == ["Mika", "Ada"]


def test_its_options_are_those_of_the_command_and_all_of_them() -> None:
    app = typer.Typer(add_completion=False)
    app.command()(command)
    known = {option for each in typer.main.get_command(app).params for option in each.opts if option.startswith("-")}
    section = PAGE.partition("## From a terminal")[2].partition("\n## ")[0]
    assert set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", section)) == known - {"--output"}


def test_its_limits_and_keys_are_those_of_the_code() -> None:
    outcomes = " ".join(rows("page | outcome"))
    assert f"more than {fetch_plain.MAX_BYTES // 1024**2} MB, or more than {fetch_plain.TIMEOUT_S:g} s" in outcomes
    assert f"more than {extraction.TIMEOUT_S:g} s or {extraction.MAX_MEMORY_BYTES // 1024**3} GB" in outcomes
    assert f"at most {MAX_REDIRECTS} are followed" in PAGE
    assert f"most {AgentFetch().max_iterations} model calls" in PAGE
    output = PAGE.partition("its output ")[2].partition("A run in")[0]
    assert set(re.findall(r"`(\w+)[`.]", output)) == {*ScriptOutput.__annotations__, *ScriptSource.__annotations__}
    nodes = set(served.script_writer.get_graph().nodes) - {"__start__", "__end__"}
    assert set(rows("node | what it does")) == nodes
    for name in re.findall(r"from toolweave import (.+?)[\n`]", PAGE):
        assert {part.strip(" `.") for part in name.split(",")} <= set(toolweave.__all__)


@pytest.fixture
def example_url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve a page, and a model that writes a script, has an agent fetch the page again, and writes another one."""
    with web_pages() as site:
        url = site.page("notes.md")
        turns = [calling(script()), asks(("web_read", {"url": url})), DONE, calling(script())]
        with openai_wire(turns) as wire:
            monkeypatch.setenv("OPENAI_BASE_URL", wire.base_url)
            monkeypatch.setenv("TOOLWEAVE_MODEL", "m")
            monkeypatch.setenv("TOOLWEAVE_OUTBOUND_ALLOW", "127.0.0.1")
            monkeypatch.setenv("FETCHING", FETCHING)
            yield url


async def test_its_python_example_runs(
    example_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script-settings.yaml").write_text("language: auto\n", encoding="utf-8")
    entry = '{"command": "{env:TOOLWEAVE_PYTHON}", "args": ["{env:FETCHING}"], "timeout_s": 20}'
    (tmp_path / "mcp.jsonc").write_text(f'{{"mcpServers": {{"web": {entry}}}}}', encoding="utf-8")
    example = next(block for block in code_blocks(PAGE, "python") if "generate_script_from_url(" in block)
    written = await run_example(example.replace("https://example.org/article", example_url), "script")
    assert written.title == "Bees"
    assert "100 % The script is ready" in capsys.readouterr().out
    assert (tmp_path / "out" / "script.yaml").is_file()


class HostState(TypedDict, total=False):
    """What another application's graph has in common with the script writer, and a key of its own."""

    url: str
    script: dict[str, Any]
    source: dict[str, Any]
    spoken: str


async def test_its_embedding_example_runs_and_is_a_node_of_another_graph() -> None:
    model = ScriptedModel(turns=[scripted_call(("write_script", script()))])
    scope: dict[str, Any] = {"my_chat_model": model}
    graph_of, _, _ = next(block for block in code_blocks(PAGE, "python") if "build_script_writer(" in block).partition(
        "answer ="
    )
    exec(graph_of.replace("wiki.internal", "127.0.0.1"), scope)  # noqa: S102
    host = StateGraph(HostState)
    host.add_node("script_writer", scope["graph"])
    host.add_node("speak", lambda state: {"spoken": f"{state['source']['title']}: {state['script']['title']}"})
    host.add_edge(START, "script_writer")
    host.add_edge("script_writer", "speak")
    host.add_edge("speak", END)
    options: Any = {"stream_mode": ["custom", "values"], "subgraphs": True}

    with web_pages() as site:
        parts: Any = [part async for part in host.compile().astream({"url": site.page("notes.md")}, **options)]

    ended = parts[-1][2]
    assert ended.keys() == {"url", "script", "source", "spoken"}
    assert ended["spoken"] == "Notes on winding paths: Bees"
    assert [event["progress"] for _, mode, event in parts if mode == "custom"][-1] == 100
    assert "German" in model.prompts[0][0].text
