"""Only the owner can read the data folder, under any umask and after any earlier version (R-02)."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.fixtures.app_server import AppProcess
from tests.fixtures.logged import logged
from toolweave.files import make_data_folder, make_file, make_folder

pytestmark = pytest.mark.requirement("R-02")

LANGGRAPH_JSON = Path(__file__).parent.parent / "langgraph.json"
ENV = {"TOOLWEAVE_MODEL": "offline", "TOOLWEAVE_TOKEN_STORE": "file"}
WRITTEN = {"app.db", "checkpoints.db", "store.db", "todo.db", "tools.db", "toolweave.lock", "logs", "mcp.jsonl"}
DATABASES = {"app.db", "checkpoints.db", "store.db", "todo.db", "tools.db"}


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def serving(data_dir: Path) -> Iterator[AppProcess]:
    with AppProcess(LANGGRAPH_JSON, data_dir, ENV) as process:
        yield process


def use(process: AppProcess) -> None:
    """Have every database and the log of MCP calls written to."""
    body = {"assistant_id": "todo_agent", "input": {"messages": [{"role": "user", "content": "Add a todo: buy milk"}]}}
    process.wait_for_log("MCP server todo is ready")
    with httpx.Client(base_url=process.url, timeout=30) as http:
        messages = http.post("/runs/wait", json=body).json()["messages"]
        assert [message["status"] for message in messages if message["type"] == "tool"] == ["success"]
        assert http.get("/tools").status_code == 200


def modes(folder: Path) -> dict[str, int]:
    """Give the mode of a folder (".") and of what is in it."""
    paths = [folder, *folder.rglob("*")]
    return {path.name if path != folder else ".": stat.S_IMODE(path.stat().st_mode) for path in paths}


def open_to_others(found: dict[str, int]) -> dict[str, str]:
    return {name: f"{mode:04o}" for name, mode in found.items() if mode & 0o077}


@pytest.mark.parametrize("mask", [0, 0o022])
def test_a_new_folder_and_all_files_of_all_processes_are_their_owners_only(tmp_path: Path, mask: int) -> None:
    with umask(mask), serving(tmp_path / "new" / "data") as process:
        use(process)
        found = modes(tmp_path / "new" / "data")
        assert set(found) >= WRITTEN | {f"{name}-wal" for name in DATABASES} | {f"{name}-shm" for name in DATABASES}
        assert open_to_others(found) == {}
        assert found["app.db"] == found["todo.db-wal"] == 0o600
        assert found["."] == found["logs"] == 0o700
        assert open_to_others(modes(tmp_path / "new")) == {}


def test_files_that_an_earlier_version_left_open_are_closed_with_one_warning(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with serving(data_dir) as process:
        use(process)
        process.kill()
    for path in data_dir.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    data_dir.chmod(0o755)
    with serving(data_dir) as process:
        use(process)
        assert open_to_others(modes(data_dir)) == {}
        warnings = [line for line in process.logs().splitlines() if "other users of this machine" in line]
        assert len(warnings) == 1
        assert f"{data_dir} could be read by other users of this machine" in warnings[0]
        for change in (
            "data (0755 → 0700)",
            "app.db (0644 → 0600)",
            "todo.db (0644 → 0600)",
            "mcp.jsonl (0644 → 0600)",
        ):
            assert change in warnings[0]
        assert process.stop() == 0
        process.start()
        assert process.logs().count("other users of this machine") == 1


def test_a_todo_server_on_its_own_closes_its_folder_and_its_file(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    command = [sys.executable, "-m", "toolweave.servers.todo"]
    env = {"PATH": os.environ["PATH"], "TOOLWEAVE_DATA_DIR": str(data_dir)}
    for wide in (False, True):
        if wide:
            data_dir.chmod(0o777)
            (data_dir / "todo.db").chmod(0o666)
        with umask(0):
            subprocess.run(command, env=env, stdin=subprocess.DEVNULL, check=True, timeout=50)
        assert modes(data_dir) == {".": 0o700, "todo.db": 0o600}


def test_a_folder_that_holds_files_of_others_stays_open_and_our_files_in_it_are_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "index.html").touch(0o644)
    (tmp_path / "app.db").touch(0o644)
    with logged() as lines:
        make_data_folder(tmp_path)
    assert modes(tmp_path) == {".": 0o755, "index.html": 0o644, "app.db": 0o600}
    (warning,) = lines
    assert "app.db (0644 → 0600)" in warning
    assert "also holds index.html, which is not Toolweave's" in warning
    with logged() as lines:
        make_data_folder(tmp_path)
    assert "--data-dir" in lines[0]


@pytest.mark.parametrize("whose", ["another user's", "shared by all"])
def test_a_folder_that_is_not_ours_alone_is_warned_about_and_used(tmp_path: Path, whose: str) -> None:
    if whose == "shared by all":
        tmp_path.chmod(0o1777)
    else:
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder to another user")
        tmp_path.chmod(0o755)
        os.chown(tmp_path, 12345, -1)
    before = modes(tmp_path)
    with logged() as lines:
        make_data_folder(tmp_path)
        make_file(tmp_path / "app.db")
    assert modes(tmp_path) == {**before, "app.db": 0o600}
    (warning,) = lines
    assert f"{tmp_path} could be read by other users" in warning
    assert "--data-dir" in warning


def test_a_link_to_the_data_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(0o755)
    (tmp_path / "link").symlink_to("real")
    make_data_folder(tmp_path / "link")
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o700
    (tmp_path / "nowhere").symlink_to("gone")
    with pytest.raises(FileExistsError):
        make_data_folder(tmp_path / "nowhere")


def test_an_existing_folder_is_not_changed_by_what_is_made_in_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with umask(0):
        make_folder(tmp_path / "a" / "b")
    assert modes(tmp_path) == {".": 0o755, "a": 0o700, "b": 0o700}


def test_a_file_is_never_open_to_others_not_even_for_a_moment(tmp_path: Path) -> None:
    with umask(0):
        make_file(tmp_path / "todo.db")
    with (tmp_path / "todo.db").open("rb"), logged() as lines:
        make_file(tmp_path / "todo.db")
    assert lines == []
    (tmp_path / "todo.db-wal").touch(0o644)
    with logged() as lines:
        make_file(tmp_path / "todo.db")
    assert ["todo.db-wal (0644 → 0600)" in line for line in lines] == [True]
    assert modes(tmp_path)["todo.db-wal"] == 0o600


def test_programs_of_other_projects_keep_their_modes_without_a_warning(tmp_path: Path) -> None:
    program = tmp_path / "real" / "servers" / "program"
    program.parent.mkdir(parents=True)
    (tmp_path / "real").chmod(0o755)
    program.touch()
    for path in (program, program.parent):
        path.chmod(0o755)
    make_folder(tmp_path / "data")
    (tmp_path / "data" / "servers").symlink_to(program.parent)
    with logged() as lines:
        make_data_folder(tmp_path / "data")
        make_data_folder(tmp_path / "real")
    assert ["real (0755 → 0700)" in line and "servers (" not in line for line in lines] == [True]
    assert modes(program.parent) == {".": 0o755, "program": 0o755}
