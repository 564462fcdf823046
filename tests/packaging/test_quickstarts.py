"""The README's quickstarts work as they are written, in new environments with nothing but the built wheel."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from scripts.tour import UV, installed

from tests.cli.command import BOUND_S, clean_environment, serving
from tests.fixtures.doc_pages import code_blocks
from tests.fixtures.openai_wire import WireCall, WireTurn, openai_wire

ROOT = Path(__file__).parents[2]
README, INSTALL = ((ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/install.md"))
MAX_LINES = 10
MAX_BASE_MB, MAX_BASE_PACKAGES = 150, 80
pytestmark = [pytest.mark.slow, pytest.mark.requirement("U-01"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def base(archives: tuple[list[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(archives[1], "", tmp_path_factory.mktemp("base") / "env")


@pytest.fixture(scope="module")
def server(archives: tuple[list[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(archives[1], "server", tmp_path_factory.mktemp("server") / "env")


def user(programs: Path, home: Path, **variables: str) -> dict[str, str]:
    """Return the variables of a user who has activated an environment."""
    return {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(home), **variables}


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


def test_who_builds_the_wheel_installs_it_with_an_extra(
    archives: tuple[list[str], Path], base: Path, tmp_path: Path
) -> None:
    (tmp_path / "dist").symlink_to(archives[1].parent)
    (commands,) = (block for block in code_blocks(INSTALL, "sh") if "pip install" in block)
    (install,) = (line for line in commands.splitlines() if line.startswith("pip install "))
    options = ("--quiet", "--dry-run", "--python", str(base / "python"))
    run(str(UV), *shlex.split(install, comments=True), *options, cwd=tmp_path, env={})


def test_who_debugs_graphs_serves_and_runs_them(server: Path, tmp_path: Path) -> None:
    serve, use = quickstart("You debug graphs", "sh")
    assert serve.startswith("toolweave dev ")
    env = user(server, tmp_path)
    with serving(cwd=tmp_path, env=env, command="dev", python=str(server / "python")) as served:
        printed = run("bash", "-euc", use, cwd=tmp_path, env={**env, "TOOLWEAVE_API_URL": served.url})
    assert "call_model" in printed
    assert "Buy milk" in printed


def test_who_calls_graphs_streams_a_run(server: Path, tmp_path: Path) -> None:
    (example,) = quickstart("You call graphs", "python")
    env = user(server, tmp_path)
    with serving(cwd=tmp_path, env=env, command="dev", python=str(server / "python")) as served:
        code = example.replace("http://127.0.0.1:2024", served.url)
        assert code != example
        printed = run(str(server / "python"), "-c", code, cwd=tmp_path, env=env)
    assert "Buy milk" in printed


def test_who_embeds_graphs_invokes_one(base: Path, tmp_path: Path) -> None:
    (example,) = quickstart("You embed graphs", "python")
    turns = [WireTurn(calls=(WireCall("get_time", '{"city": "Kyoto"}'),)), WireTurn(text="It is 12:00 in Kyoto.")]
    with openai_wire(turns) as model:
        env = user(base, tmp_path, OPENAI_BASE_URL=model.base_url, OPENAI_API_KEY="key")
        printed = run(str(base / "python"), "-c", example, cwd=tmp_path, env=env)
        assert model.requests[1].messages[-1]["content"] == "12:00 in Kyoto"
    assert printed == "It is 12:00 in Kyoto.\n"


@pytest.mark.parametrize("imported", [True, False], ids=["with servers of Claude", "with a new home"])
def test_who_has_mcp_servers_imports_calls_and_chats(server: Path, tmp_path: Path, imported: bool) -> None:
    (commands,) = quickstart("You have MCP servers", "sh")
    if imported:
        text = json.dumps({"mcpServers": {"tasks": {"command": "python", "args": ["-m", "toolweave.servers.todo"]}}})
        (tmp_path / ".claude.json").write_text(text, encoding="utf-8")
    printed = run("bash", "-euc", commands, cwd=tmp_path, env=user(server, tmp_path), stdin="List my tasks\n")
    assert ("tasks ready 5 tools" in printed) == imported
    assert '"title":"Buy milk"' in printed
    assert printed.endswith("(offline model)\n")


@pytest.mark.requirement("U-05")
def test_the_base_installation_is_small_on_disk(base: Path) -> None:
    (packages,) = base.parent.glob("lib/*/site-packages")
    files = [path for path in packages.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(path.stat().st_size for path in files) <= MAX_BASE_MB * 1_000_000
    assert len(list(packages.glob("*.dist-info"))) <= MAX_BASE_PACKAGES
