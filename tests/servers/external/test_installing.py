"""A server is installed whole or not at all, by one process at a time, and a failure says what to do (C-09)."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.servers.connections.peers import is_running
from tests.servers.external.programs import NPM_INSTALLS, UV_INSTALLS, Programs
from toolweave.errors import ConfigError
from toolweave.servers.external_servers import Installation, install, installation_of, is_installed

BOUND_S = 60.0


def the(name: str) -> Installation:
    found = installation_of(name)
    assert found is not None
    return found


MEMORY = the("memory")


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    path = tmp_path / "programs"
    path.mkdir()
    return Programs(path)


@pytest.fixture
def npm(programs: Programs) -> Programs:
    """Give a node, and an npm that works."""
    programs.add("node")
    programs.add("npm", NPM_INSTALLS)
    return programs


def try_install(name: str, data_dir: Path, programs: Programs, limit_s: float = BOUND_S) -> list[str]:
    messages: list[str] = []
    install(the(name), data_dir, messages.append, path=str(programs.path), timeout_s=limit_s)
    return messages


def test_a_server_is_installed_once_from_the_pinned_packages(tmp_path: Path, npm: Programs) -> None:
    data_dir = tmp_path / "data"
    assert not is_installed(MEMORY, data_dir)
    assert try_install("memory", data_dir, npm)[-1] == "Installed @modelcontextprotocol/server-memory 2026.8.31."
    assert is_installed(MEMORY, data_dir)
    program = data_dir / "servers" / MEMORY.program
    assert program.read_text(encoding="utf-8") == "program"
    pinned = program.resolve().parents[2]
    assert (pinned / "package-lock.json").read_bytes() == MEMORY.lock.read_bytes()
    assert try_install("memory", data_dir, npm) == ["@modelcontextprotocol/server-memory 2026.8.31 is installed."]
    (call,) = npm.calls()
    assert call.startswith("npm ci --ignore-scripts ")


def test_without_npm_the_error_names_it_and_says_what_to_install(tmp_path: Path, programs: Programs) -> None:
    with pytest.raises(ConfigError, match=r"npm was not found.* Install Node 20 or newer"):
        try_install("memory", tmp_path, programs)
    assert not is_installed(MEMORY, tmp_path)


def test_a_failure_has_the_text_of_npm_without_credentials_leaves_nothing_and_can_be_repeated(
    tmp_path: Path, npm: Programs
) -> None:
    npm.add(
        "npm",
        NPM_INSTALLS + "print('npm error request to https://ada:hunter2secret@npm.example failed, ENOTFOUND'); exit(1)",
    )
    with pytest.raises(ConfigError, match=r"(?s)`npm ci` failed: npm error .*ENOTFOUND.*Check that") as caught:
        try_install("memory", tmp_path, npm)
    assert "hunter2secret" not in str(caught.value)
    assert not is_installed(MEMORY, tmp_path)
    assert not (tmp_path / "servers" / MEMORY.program).exists()
    npm.add("npm", NPM_INSTALLS + "exit(1)")
    with pytest.raises(ConfigError, match="it printed nothing"):
        try_install("memory", tmp_path, npm)
    npm.add("npm", NPM_INSTALLS)
    try_install("memory", tmp_path, npm)
    assert is_installed(MEMORY, tmp_path)


def test_an_installation_that_takes_too_long_is_ended(tmp_path: Path, npm: Programs) -> None:
    pid = tmp_path / "pid"
    (npm.path / "npm").write_text(f"#!/bin/sh\necho $$ > '{pid}'\nexec sleep 600\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"took longer than 5 s\. Check that"):
        try_install("memory", tmp_path, npm, limit_s=5.0)
    assert not is_running(int(pid.read_text(encoding="utf-8")))
    assert not is_installed(MEMORY, tmp_path)


def test_an_installation_whose_process_was_killed_is_done_anew_when_its_npm_has_ended(
    tmp_path: Path, npm: Programs
) -> None:
    begun, go_on = tmp_path / "begun", tmp_path / "go_on"
    os.mkfifo(begun)
    os.mkfifo(go_on)
    waiting = f"open({str(begun)!r}, 'w', encoding='utf-8').close()\nopen({str(go_on)!r}, encoding='utf-8').close()\n"
    npm.add("npm", waiting + NPM_INSTALLS)
    script = (
        "import sys; from pathlib import Path\n"
        "from toolweave.servers.external_servers import installation_of\n"
        "from toolweave.servers.external_servers import install\n"
        "install(installation_of('memory'), Path(sys.argv[1]), print, path=sys.argv[2])\n"
    )
    killed = subprocess.Popen([sys.executable, "-c", script, str(tmp_path), str(npm.path)], stdout=subprocess.DEVNULL)
    begun.open(encoding="utf-8").close()
    killed.send_signal(signal.SIGKILL)
    killed.wait(BOUND_S)
    npm.add("npm", NPM_INSTALLS)
    messages: list[str] = []
    waited = threading.Event()

    def report(text: str) -> None:
        messages.append(text)
        if text.startswith("Waiting"):
            waited.set()

    second = threading.Thread(target=lambda: install(MEMORY, tmp_path, report, path=str(npm.path)))
    second.start()
    assert waited.wait(BOUND_S), messages
    assert not is_installed(MEMORY, tmp_path)
    go_on.open("w", encoding="utf-8").close()
    second.join(BOUND_S)
    assert messages[-1].startswith("Installed ")
    assert is_installed(MEMORY, tmp_path)
    assert len(list((tmp_path / "servers" / "installed").iterdir())) == 1


def test_two_at_once_install_once(tmp_path: Path, npm: Programs) -> None:
    threads = [threading.Thread(target=try_install, args=("memory", tmp_path, npm)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND_S)
    assert is_installed(MEMORY, tmp_path)
    assert len(npm.calls()) == 1


def test_a_version_that_is_in_use_stays_when_another_is_installed(tmp_path: Path, npm: Programs) -> None:
    old = tmp_path / "servers" / "installed" / "node_modules-of-before" / "node_modules"
    old.mkdir(parents=True)
    abandoned = tmp_path / "servers" / "installed" / "node_modules-half"
    abandoned.mkdir()
    (tmp_path / "servers" / "node_modules").symlink_to("installed/node_modules-of-before/node_modules")
    assert not is_installed(MEMORY, tmp_path)
    try_install("memory", tmp_path, npm)
    assert is_installed(MEMORY, tmp_path)
    assert old.exists()
    assert not abandoned.exists()


def test_a_virtual_environment_is_created_again_without_its_interpreter_or_after_the_data_folder_was_moved(
    tmp_path: Path, npm: Programs
) -> None:
    npm.add("uv", UV_INSTALLS)
    before, after = tmp_path / "before", tmp_path / "after"
    try_install("memory", before, npm)
    for _ in range(2):
        try_install("time", before, npm)
        assert is_installed(the("time"), before)
        (before / "servers" / "time" / "bin" / "python").unlink()
        assert not is_installed(the("time"), before)
    _, made, filled, *_ = npm.calls()
    assert made.startswith(f"uv venv --quiet --python {sys.executable} ")
    assert "--require-hashes --only-binary :all:" in filled
    try_install("time", before, npm)
    before.rename(after)
    assert is_installed(MEMORY, after)
    assert not is_installed(the("time"), after)


def test_a_file_in_the_place_of_the_folder_is_named_and_a_folder_in_the_place_of_our_link_is_replaced(
    tmp_path: Path, npm: Programs
) -> None:
    (tmp_path / "servers").write_text("in the way", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"servers: .*cannot be installed: .*Make the folder writable"):
        try_install("memory", tmp_path, npm)
    (tmp_path / "servers").unlink()
    (tmp_path / "servers" / "node_modules" / "other").mkdir(parents=True)
    try_install("memory", tmp_path, npm)
    assert is_installed(MEMORY, tmp_path)


@pytest.mark.parametrize("name", ["todo", "core", "unknown", ""])
def test_a_server_that_is_not_one_of_these_has_no_installation(name: str) -> None:
    assert installation_of(name) is None
