"""The commands as a whole: the overview, their help, and how failures leave the process."""

import re
from pathlib import Path

import pytest

from tests.cli.command import Ended, cold_python, toolweave
from toolweave.cli.commands import COMMANDS, DB_COMMANDS, SERVER_COMMANDS

ENTRY_POINTS = Path(__file__).parents[1] / "public_names" / "entry_points.txt"
# Each command starts without any module of ours; libraries are imported once, since they take half of the CPU.
FRESHLY = """
import gc, os, runpy, sys
gc.disable()
import fastapi, fastmcp.server, langchain_core.tools, langgraph.graph, langgraph_sdk, sqlalchemy.ext.asyncio, typer
gc.freeze()
assert not any(name.startswith("toolweave") for name in sys.modules)
for line in sys.argv[1:]:
    pid = os.fork()
    if not pid:
        sys.argv = [*line.split(), "--help"]
        try:
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        except SystemExit as ended:
            sys.stdout.flush()
            os._exit(ended.code or 0)
    if os.waitpid(pid, 0)[1]:
        sys.exit(f"{line} --help has failed")
"""


def test_the_overview_lists_every_command_in_a_line_and_imports_none_of_them(tmp_path: Path) -> None:
    done = _python(
        "import sys\n"
        "from toolweave.cli.main import main\n"
        "sys.argv = ['toolweave', '--help']\n"
        "try:\n    main()\n"
        "except SystemExit:\n"
        "    print(sorted({'fastapi', 'langgraph', 'uvicorn', 'httpx', 'mcp', 'sqlalchemy'} & set(sys.modules)))\n",
        tmp_path,
    )
    assert done.stdout.rstrip().endswith("[]"), done.stdout
    for name in COMMANDS:
        assert f" {name} " in done.stdout


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_a_help_text(name: str, tmp_path: Path) -> None:
    ended = toolweave(name, "--help", cwd=tmp_path)
    assert ended.code == 0, ended.stderr
    assert f"toolweave {name}" in ended.stdout


def test_paragraphs_of_a_help_text_have_no_line_breaks_of_their_own(tmp_path: Path) -> None:
    shown = toolweave("call", "--help", cwd=tmp_path, env={"COLUMNS": "80"}).stdout
    assert "approval of a tool that requires one. The exit code is 1 if the call failed.   \n" in shown


def test_help_shows_the_defaults_of_options(tmp_path: Path) -> None:
    for args, default in ((("script",), "CONFIG_PATH"), (("serve",), "2024"), (("servers", "check"), "all that are")):
        assert f"[default: ({default}" in toolweave(*args, "--help", cwd=tmp_path).stdout


def test_the_module_runs_as_a_program_and_knows_its_version(tmp_path: Path) -> None:
    ended = cold_python("-m", "toolweave", "--version", cwd=tmp_path)
    assert (ended.code, ended.stderr) == (0, "")
    assert ended.stdout.startswith("toolweave 0.")


def test_every_command_and_program_starts_without_the_preloaded_parent(tmp_path: Path) -> None:
    """That parent has imported all modules of ours, so its forks hide an import that is missing."""
    rows = {f"toolweave {name}": row for name, row in COMMANDS.items()}
    for group, entries in (("servers", SERVER_COMMANDS), ("db", DB_COMMANDS)):
        rows |= {f"toolweave {group} {name}": row for name, row in entries.items()}
    commands = {row[0].partition(":")[0]: line for line, row in rows.items()}
    programs = re.findall(r"(?m)^python -m (\S+)$", ENTRY_POINTS.read_text(encoding="utf-8"))
    done = _python(FRESHLY, tmp_path, *programs, *commands.values())
    assert done.code == 0, done.stderr
    assert re.findall(r"Usage: (toolweave .*?) \[OPTIONS\]", done.stdout) == list(commands.values())
    assert done.stdout.lower().count("usage: ") == len(programs) + len(commands)


def test_wrong_usage_ends_with_code_two(tmp_path: Path) -> None:
    for args in (("serve", "--port", "70000"), ("run", "--thread", "x"), ()):
        assert toolweave(*args, cwd=tmp_path).code == 2
    unknown = toolweave("sreve", cwd=tmp_path)
    assert unknown.code == 2
    assert "Did you mean 'serve'" in unknown.stderr


def test_an_unforeseen_error_keeps_its_traceback_and_fails(tmp_path: Path) -> None:
    code = "def graph():\n    return undefined_name\n"
    (tmp_path / "broken.py").write_text(code, encoding="utf-8")
    (tmp_path / "langgraph.json").write_text('{"graphs": {"a": "./broken.py:graph"}}', encoding="utf-8")
    ended = toolweave("graph", "a", cwd=tmp_path)
    assert ended.code == 1
    assert "broken.py" in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("NameError: name 'undefined_name' is not defined (")


def _python(program: str, cwd: Path, *args: str) -> Ended:
    return cold_python("-c", program, *args, cwd=cwd, env={"COLUMNS": "120"})
