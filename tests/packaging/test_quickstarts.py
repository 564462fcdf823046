"""The README's quickstarts work as they are written, with nothing of the project but the built wheel."""

import json
import os
import re
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.command import BOUND_S, clean_environment, serving
from tests.fixtures.doc_pages import code_blocks
from tests.fixtures.forked_python import REAL_PYTHON
from tests.fixtures.openai_wire import WireCall, WireTurn, openai_wire

README = Path(__file__).parents[2].joinpath("README.md").read_text(encoding="utf-8")
MAX_LINES = 10
pytestmark = [pytest.mark.slow, pytest.mark.requirement("U-01")]


@pytest.fixture(scope="module")
def environment(archives: tuple[list[str], Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Unpack the wheel before the project's environment; give the variables of a user in it."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(archives[1]) as packed:
        packed.extractall(folder / "packages")
    program = folder / "toolweave"
    program.write_text(f'#!/bin/sh\nexec {REAL_PYTHON} -m toolweave "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return {
        "PATH": f"{folder}:{Path(REAL_PYTHON).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(folder / "packages"),
        "HOME": str(folder),
    }


def quickstart(heading: str, language: str) -> list[str]:
    """Return the code blocks of the section whose heading contains these words."""
    (section,) = [part for part in re.split("^## ", README, flags=re.MULTILINE) if heading in part.partition("\n")[0]]
    blocks = code_blocks(section, language)
    assert sum(block.count("\n") for block in blocks) <= MAX_LINES
    return blocks


def run(*command: str, cwd: Path, env: Mapping[str, str], stdin: str = "") -> str:
    """Run a program to its end; return what it prints."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=clean_environment(**env),
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=BOUND_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_who_debugs_graphs_serves_and_runs_them(environment: dict[str, str], tmp_path: Path) -> None:
    serve, use = quickstart("You debug graphs", "sh")
    assert serve.startswith("toolweave dev ")
    with serving(cwd=tmp_path, env=environment, command="dev", python=REAL_PYTHON) as server:
        printed = run("bash", "-euc", use, cwd=tmp_path, env={**environment, "TOOLWEAVE_API_URL": server.url})
    assert "call_model" in printed
    assert "Buy milk" in printed


def test_who_calls_graphs_streams_a_run(environment: dict[str, str], tmp_path: Path) -> None:
    (example,) = quickstart("You call graphs", "python")
    with serving(cwd=tmp_path, env=environment, command="dev", python=REAL_PYTHON) as server:
        code = example.replace("http://127.0.0.1:2024", server.url)
        assert code != example
        printed = run(REAL_PYTHON, "-c", code, cwd=tmp_path, env=environment)
    assert "Buy milk" in printed


def test_who_embeds_graphs_invokes_one(environment: dict[str, str], tmp_path: Path) -> None:
    (example,) = quickstart("You embed graphs", "python")
    turns = [WireTurn(calls=(WireCall("get_time", '{"city": "Kyoto"}'),)), WireTurn(text="It is 12:00 in Kyoto.")]
    with openai_wire(turns) as model:
        env = {**environment, "OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "key"}
        printed = run(REAL_PYTHON, "-c", example, cwd=tmp_path, env=env)
        assert model.requests[1].messages[-1]["content"] == "12:00 in Kyoto"
    assert printed == "It is 12:00 in Kyoto.\n"


def test_who_has_mcp_servers_imports_calls_and_chats(environment: dict[str, str], tmp_path: Path) -> None:
    (commands,) = quickstart("You have MCP servers", "sh")
    todo = {"command": REAL_PYTHON, "args": ["-m", "toolweave.servers.todo"]}
    text = json.dumps({"mcpServers": {"tasks": {**todo, "env": {"PYTHONPATH": environment["PYTHONPATH"]}}}})
    (tmp_path / ".claude.json").write_text(text, encoding="utf-8")
    env = {**environment, "HOME": str(tmp_path)}
    printed = run("bash", "-euc", commands, cwd=tmp_path, env=env, stdin="List my tasks\n")
    assert "tasks ready 5 tools" in printed
    assert '"title":"Buy milk"' in printed
    assert printed.endswith("(offline model)\n")
