"""U-05: what works without extras, and how everything else names the one that it needs."""

import subprocess
from collections.abc import Iterator
from importlib.metadata import distribution, packages_distributions

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.fixtures.forked_python import REAL_PYTHON
from toolweave.extras import PACKAGES

pytestmark = pytest.mark.requirement("U-05")
MAX_PACKAGES = 80
BLOCK = """
import sys
from importlib.machinery import PathFinder

class BaseInstallation:
    find_distributions = PathFinder.find_distributions

    @staticmethod
    def find_spec(name, path=None, target=None):
        return None if name.partition(".")[0] in {blocked!r} else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = BaseInstallation
"""
AGENT = """
from toolweave.graphs import AgentLoop, build_agent_loop, build_todo_agent, build_workflow
def double(n: int) -> int:
    "Double a number."
    return 2 * n
graph = build_agent_loop(tools=[double], model="offline")
print(graph.invoke({"messages": [("user", "hello")]})["status"])
try:
    AgentLoop({"x": {"url": "http://127.0.0.1:1/mcp"}}, "offline").run_sync("go")
except Exception as error:
    print(error)
build_agent_loop(tools=[double], model="openai:gpt-4o")
import langchain_openai
"""


def base_packages() -> set[str]:
    """Return the names of the distributions that an installation without extras brings."""
    found: set[str] = set()
    open_ends = [Requirement("toolweave")]
    while open_ends:
        wanted = open_ends.pop()
        key = f"{canonicalize_name(wanted.name)}{sorted(wanted.extras) or ''}"
        if key in found:
            continue
        found.add(key)
        open_ends += needs_of(wanted)
    return {name.partition("[")[0] for name in found}


def needs_of(wanted: Requirement) -> Iterator[Requirement]:
    for written in distribution(wanted.name).requires or ():
        need = Requirement(written)
        if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)):
            yield need


def run_in_base(code: str, *others: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process that finds the packages of the base installation and `others` only."""
    base = {*base_packages(), *others}
    blocked = {
        module
        for module, owners in packages_distributions().items()
        if not any(canonicalize_name(owner) in base for owner in owners)
    }
    return subprocess.run(
        [REAL_PYTHON, "-W", "ignore::EncodingWarning", "-c", BLOCK.format(blocked=blocked) + code],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def test_the_base_installation_is_small() -> None:
    base = base_packages()

    assert {"langgraph", "langchain-openai", "langchain-mcp-adapters"} <= base
    assert not base & {"fastmcp", "sqlalchemy", "keyring", "trafilatura", "protego", "typer", "fastapi", "alembic"}
    assert len(base) <= MAX_PACKAGES


def test_graphs_run_with_functions_names_of_models_and_connections() -> None:
    finished = run_in_base(AGENT)

    assert finished.returncode == 0, finished.stderr
    status, error = finished.stdout.splitlines()
    assert status == "done"
    assert "No MCP server offers a tool. x is down" in error


READ = "from toolweave.config.mcp import read_servers; read_servers({'x': %s})"


OTHERS = ("typer", "fastapi", "starlette", "uvicorn", "sqlalchemy", "greenlet", "aiosqlite")
DEV = "import sys; from toolweave.cli.main import main; sys.argv[1:] = ['dev']; main()"
PROGRAM = "import runpy, sys; sys.argv[0] = '-m'; runpy._run_module_as_main('toolweave.servers.%s')"


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("import toolweave.servers.todo.server", "server"),
        ("import toolweave.servers.registry.openapi.importing", "server"),
        ("import toolweave.api.app", "server"),
        ("import toolweave.runtime.graphs", "server"),
        (READ % "{'builtin': 'core'}", "server"),
        (READ % "{'url': 'https://example.com/mcp', 'auth': 'oauth'}", "server"),
        ("from toolweave import generate_script_from_url", "script"),
        ("from toolweave import build_script_writer", "script"),
    ],
)
def test_what_needs_an_extra_names_it(code: str, extra: str) -> None:
    finished = run_in_base(code, *OTHERS)

    assert finished.returncode == 1
    assert f"toolweave[{extra}]" in finished.stderr.splitlines()[-1]


@pytest.mark.parametrize("others", [(), OTHERS], ids=["base", "some packages of the extra"])
@pytest.mark.parametrize("program", [DEV, PROGRAM % "todo", PROGRAM % "core"], ids=["dev", "todo", "core"])
def test_a_program_that_needs_an_extra_prints_one_line(program: str, others: tuple[str, ...]) -> None:
    finished = run_in_base(program, *others)

    assert finished.returncode == 1
    assert finished.stderr.count("\n") == 1
    assert "is not installed. Install the extra server: pip install 'toolweave[server]'" in finished.stderr


@pytest.mark.parametrize("extra", ["otel", "postgres", "script", "server"])
def test_every_package_of_an_extra_is_checked(extra: str) -> None:
    wanted = (Requirement(written) for written in distribution("toolweave").requires or ())
    packages = {
        canonicalize_name(need.name)
        for need in wanted
        if need.marker and need.marker.evaluate({"extra": extra}) and "sys_platform" not in str(need.marker)
    }
    owners = packages_distributions()
    checked = {canonicalize_name(owner) for module in PACKAGES[extra] for owner in owners[module.partition(".")[0]]}

    # The first has no module of its own; of the second, a package that only it needs is checked.
    assert packages - checked <= {"fastmcp", "langgraph-checkpoint-sqlite"}
