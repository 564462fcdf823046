"""A command that cannot be started is refused with its path."""

from pathlib import Path

import pytest

from toolweave.servers.connections.sessions.faults import describe_errors
from toolweave.servers.connections.sessions.stdio import launch_command, parent_death_prefix


def refusal(command: str, *, cwd: str | None = None, search_path: str | None = None) -> str:
    with pytest.raises((FileNotFoundError, PermissionError, NotADirectoryError)) as raised:
        launch_command(command, (), cwd=cwd, search_path=search_path)
    return describe_errors(raised.value)


def test_the_command_follows_the_guard_with_its_arguments() -> None:
    assert launch_command("sh", ("-c", "--"), cwd=None, search_path=None) == [*parent_death_prefix(), "sh", "-c", "--"]


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    assert refusal("no-such-program") == "no-such-program was not found"
    assert refusal("sh", search_path=str(tmp_path)) == "sh was not found"
    assert refusal("/no/such/program") == "/no/such/program was not found"


def test_a_program_without_the_permission_to_execute_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch(mode=0o600)
    assert refusal(str(file)) == f"{file} may not be executed"
    assert refusal(str(tmp_path)) == f"{tmp_path} may not be executed"


def test_a_missing_working_directory_is_named_and_not_the_program() -> None:
    assert refusal("sh", cwd="/no/such/folder") == "its working directory /no/such/folder was not found"


def test_a_relative_program_is_found_in_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "run").touch(mode=0o700)
    assert launch_command("./run", (), cwd=str(tmp_path), search_path=None)[-1] == "./run"
