"""An external server that is enabled is connected at start, and its tools can be called by the agent (D-13)."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.routes.conftest import wait_for_health
from tests.external.served import Served, serve_with, text_in
from tests.external.shipped import KEYS
from tests.external.stub_apis import PROJECT, StubApis
from tests.external.test_git import git

pytestmark = [pytest.mark.external, pytest.mark.slow]

ENABLED = ("core", "brave", "supabase", "filesystem", "git", "git-files", "memory")


@pytest.fixture(scope="module")
def folder(module_data_dir: Path) -> Path:
    """Make the folder that is a repository, too."""
    folder = module_data_dir.parent / "work"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "hours.txt").write_text("nine to five\n", encoding="utf-8")
    (folder / "shop.py").write_text("\ndef is_open():\n    return True\n", encoding="utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "Write the hours down")
    return folder


@pytest.fixture(scope="module")
def served(module_data_dir: Path, folder: Path, apis: StubApis) -> Iterator[Served]:
    env = {
        "SUPABASE_ACCESS_TOKEN": KEYS["SUPABASE_ACCESS_TOKEN"],
        "FILESYSTEM_FOLDER": str(folder),
        "GIT_REPOSITORY": str(folder),
        "TOOLWEAVE_FILE_ROOTS": str(folder),
        "SUPABASE_API_URL": apis.url,
    }
    with serve_with(module_data_dir, *ENABLED, env=env) as served:
        wait_for_health(served.process, "degraded")
        yield served


@pytest.mark.requirement("D-13")
def test_those_that_are_enabled_are_connected_at_start_and_one_without_its_key_says_so(served: Served) -> None:
    health = wait_for_health(served.process, "degraded")
    states = {name: server["state"] for name, server in health["servers"].items() if server["state"] != "disabled"}
    assert states == dict.fromkeys(("todo", *ENABLED), "ready") | {"brave": "misconfigured"}
    assert "BRAVE_API_KEY" in health["servers"]["brave"]["last_error"]
    assert health["detail"] == "MCP servers not ready: brave (misconfigured)"


@pytest.mark.requirement("D-13")
def test_their_tools_can_be_called_by_the_agent(served: Served, folder: Path) -> None:
    note = str(folder / "note.txt")
    ada = {"name": "Ada", "entityType": "person", "observations": ["asked for the hours"]}
    results = served.results_of(
        [
            ("supabase_execute_sql", {"project_id": PROJECT["ref"], "query": "select * from fruits"}),
            ("filesystem_write_file", {"path": note, "content": "written by an agent"}),
            ("git_log", {"repo_path": str(folder)}),
            ("memory_create_entities", {"entities": [ada]}),
        ],
        [("filesystem_read_text_file", {"path": note}), ("memory_search_nodes", {"query": "hours"})],
    )
    assert [result["status"] for result in results] == ["success"] * 6, results
    texts = [text_in(result) for result in results]
    for text, expected in zip(
        texts, ("apples", "note.txt", "Write the hours down", "Ada", "written by an agent", "Ada"), strict=True
    ):
        assert expected in text
    assert (folder / "note.txt").read_text(encoding="utf-8") == "written by an agent"
    assert "git_commit" not in served.wire.requests[0].tool_names


@pytest.mark.requirement("C-09")
def test_an_agent_reads_a_repository_searches_its_code_and_looks_at_its_history(served: Served, folder: Path) -> None:
    code = str(folder / "shop.py")
    results = served.results_of(
        [
            ("core_search_files", {"pattern": "def is_open", "content": True, "files": "*.py"}),
            ("git-files_read_text_file", {"path": code}),
            ("git_log", {"repo_path": str(folder)}),
            ("git_show", {"repo_path": str(folder), "revision": "HEAD"}),
        ]
    )
    assert [result["status"] for result in results] == ["success"] * 4, results
    (match,) = json.loads(text_in(results[0]))["data"]
    assert (match["path"], match["line"]) == ("shop.py", 2)
    assert "def is_open" in text_in(results[1])
    assert "Write the hours down" in text_in(results[2])
    assert "+def is_open" in text_in(results[3])
    offered = served.wire.requests[0].tool_names
    assert not [name for name in offered if name.startswith("git-files_") and "write" in name]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("git_commit", {"message": "mine"}),
        ("git_add", {"files": ["hours.txt"]}),
        ("git_reset", {}),
        ("git_checkout", {"branch_name": "HEAD"}),
        ("git_create_branch", {"branch_name": "mine"}),
    ],
)
def test_an_agent_that_asks_for_a_change_of_the_repository_gets_an_error(
    served: Served, folder: Path, tool: str, arguments: dict[str, object]
) -> None:
    (folder / "hours.txt").write_text("changed\n", encoding="utf-8")
    looks = (["rev-parse", "HEAD"], ["branch"], ["status", "--short"], ["rev-parse", "--abbrev-ref", "HEAD"])
    before = [git(folder, *look) for look in looks]
    (result,) = served.results_of([(tool, {"repo_path": str(folder), **arguments})])
    assert result["status"] == "error"
    assert tool in text_in(result)
    assert [git(folder, *look) for look in looks] == before
