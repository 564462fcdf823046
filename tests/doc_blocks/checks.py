"""Ways to execute or check a code block of the documentation; `test_doc_blocks.py` names one for each block."""

import ast
import asyncio
import configparser
import inspect
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer
from fastmcp import Client

from tests.cli.command import BOUND_S, clean_environment
from tests.fixtures.doc_pages import ROOT
from tests.fixtures.node_packages import node_with_packages
from tests.fixtures.postgres import PostgresServer
from toolweave.cli.commands import app as command_line
from toolweave.config.langgraph_json import load_langgraph_json
from toolweave.config.mcp import load_mcp_config

CLIENTS = ROOT / "tests" / "clients" / "js"
# `toolweave` and `python` are those of the tests, which start quickly.
_FUNCTIONS = 'toolweave() { "$TEST_PYTHON" -m toolweave "$@"; }\n'


@dataclass
class Surroundings:
    """What a page's blocks find: a folder, variables, Python names, and real addresses for the printed ones."""

    folder: Path
    name: str
    request: pytest.FixtureRequest
    stack: ExitStack
    runner: asyncio.Runner
    env: dict[str, str] = field(default_factory=dict)
    scope: dict[str, Any] = field(default_factory=dict)
    replaced: dict[str, str] = field(default_factory=dict)

    def text(self, block: str) -> str:
        """Return a block with the addresses of the test."""
        for printed, real in self.replaced.items():
            block = block.replace(printed, real)
        return block

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path


Check = Callable[[str, Surroundings], None]


def elsewhere(path: str) -> Check:
    """Leave a block to another test, which names the page."""

    def check(_block: str, here: Surroundings) -> None:
        assert Path(here.name).name in (ROOT / path).read_text(encoding="utf-8"), f"{path} does not read {here.name}"

    return check


def parsed(reason: str) -> Check:
    """Do not execute a block, for a reason; its `toolweave` commands and options have to exist."""
    assert reason

    def check(block: str, _here: Surroundings) -> None:
        for line in block.replace("\\\n", " ").splitlines():
            _parse_commands(line)

    return check


def _parse_commands(line: str) -> None:
    words = shlex.split(line, comments=True)
    if "toolweave" not in words:
        return
    arguments = words[words.index("toolweave") + 1 :]
    command: Any = typer.main.get_command(command_line)
    context: Any = None
    while hasattr(command, "commands"):
        context = type(command).make_context(command, "toolweave", ["--help"], resilient_parsing=True, parent=context)
        _, command, arguments = command.resolve_command(context, arguments)
    command.make_context("toolweave", arguments, parent=context)


def shell(*, expect: str = "", leave_out: str = "") -> Check:
    """Execute a block with bash, except lines that install packages or contain `leave_out`; look for a text."""

    def check(block: str, here: Surroundings) -> None:
        lines = here.text(block).splitlines()
        left_out = [line for line in lines if line.startswith("pip install") or (leave_out and leave_out in line)]
        assert not leave_out or len(left_out) == 1
        for line in left_out:
            _parse_commands(line)
        done = subprocess.run(
            ["bash", "-euc", _FUNCTIONS + "\n".join(line for line in lines if line not in left_out)],
            cwd=here.folder,
            env=clean_environment(TEST_PYTHON=sys.executable, HOME=str(here.folder), **here.env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=2 * BOUND_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert expect in done.stdout, done.stdout + done.stderr

    return check


def python(expect: str) -> Check:
    """Execute a block in the names of the page; an expression has to be true afterwards."""

    def check(block: str, here: Surroundings) -> None:
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        for source, mode in ((here.text(block), "exec"), (f"assert {expect}", "exec")):
            code = compile(source, here.name, mode, flags=flags)
            awaited = eval(code, here.scope)  # noqa: S307
            if inspect.iscoroutine(awaited):
                here.runner.run(awaited)

    return check


def javascript(*, expect: str) -> Check:
    """Execute a block with Node and the clients of tests/clients; look for a text in what it prints."""

    def check(block: str, here: Surroundings) -> None:
        node = node_with_packages(CLIENTS)
        (here.folder / "node_modules").symlink_to(CLIENTS / "node_modules")
        program = here.write("block.mjs", here.text(block))
        done = subprocess.run(
            [node, program], capture_output=True, text=True, encoding="utf-8", timeout=BOUND_S, check=False
        )
        assert expect in done.stdout, done.stdout + done.stderr

    return check


def mcp_file(block: str, here: Surroundings) -> None:
    """Load a block as mcp.jsonc; warnings are errors."""
    variables = dict.fromkeys(re.findall(r"\{env:([A-Z_]+)", block), "https://example.com")
    config = load_mcp_config(here.write("checked.jsonc", block), variables, strict=True)
    assert config.servers
    assert config.warnings == ()


def langgraph_file(block: str, here: Surroundings) -> None:
    """Load a block as langgraph.json, with a graph if it has none; warnings are errors."""
    text = block if '"graphs"' in block else json.dumps({"graphs": {"a": "./a.py:a"}, **json.loads(block)})
    assert load_langgraph_json(here.write("langgraph.json", text)).warnings == ()


def mcp_client(block: str, here: Surroundings) -> None:
    """Use a block as the configuration of an MCP client: Claude's form, or VS Code's with its inputs filled in."""
    given = json.loads(here.text(block))
    servers = given.get("mcpServers") or given["servers"]

    async def tools() -> set[str]:
        async with Client({"mcpServers": servers}) as client:
            return {tool.name for tool in await client.list_tools()}

    assert "read_file" in here.runner.run(tools())


def sql(block: str, here: Surroundings) -> None:
    """Execute a block in the page's database as the superuser."""
    server: PostgresServer = here.request.getfixturevalue("postgres")
    with server.connect(here.env["TEST_DATABASE"]) as connection:
        connection.execute(here.text(block).encode())


def ini(block: str, here: Surroundings) -> None:
    """Parse a block; tests/distributed/test_pgbouncer.py runs PgBouncer where it is installed."""
    document = configparser.ConfigParser()
    document.read_string(block)
    assert document["pgbouncer"]["pool_mode"] == "transaction"
