"""`toolweave chat` with tools that need approval and a server that elicits input (S-07)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.routes.conftest import serve_ours, wait_for_health
from tests.api.routes.human import with_a_person
from tests.cli.command import Ended, toolweave
from tests.fixtures.app_server import AppProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppProcess]:
    folder = tmp_path_factory.mktemp("human")
    with serve_ours(folder / "data", with_a_person(folder)) as process:
        wait_for_health(process, "ok")
        yield process


def chat(server: AppProcess, cwd: Path, message: str, *answers: str, assistant: str = "todo_agent") -> Ended:
    stdin = "".join(f"{answer}\n" for answer in answers)
    return toolweave("chat", message, "--assistant", assistant, "--url", server.url, cwd=cwd, stdin=stdin)


def test_an_approved_call_runs(server: AppProcess, tmp_path: Path) -> None:
    ended = chat(server, tmp_path, "Add a task to buy milk", "approve")

    assert ended.code == 0
    assert 'The agent wants to call create_todo with {"title": "Buy milk"}' in ended.stderr
    assert "approve / edit / reject / respond> " in ended.stderr
    assert "← create_todo: {" in ended.stdout


def test_an_edited_call_is_shown_with_its_new_arguments(server: AppProcess, tmp_path: Path) -> None:
    ended = chat(server, tmp_path, "Add a task to buy milk", "edit", '{"title": "Buy oat milk"}')

    assert '→ create_todo(title="Buy oat milk")' in ended.stdout
    assert "Buy oat milk" in ended.stdout.splitlines()[-2]


def test_a_servers_question_is_repeated_until_its_answer_fits(server: AppProcess, tmp_path: Path) -> None:
    asks = chat(server, tmp_path, "Wipe the disk", "respond", "perhaps", "respond", "yes", assistant="agent_loop")

    assert asks.code == 0
    assert "wipe asks: Really?" in asks.stderr
    assert "reject / respond> " in asks.stderr
    assert "The answer could not be used: value" in asks.stderr
    assert "← wipe: wiped: True" in asks.stdout
