"""`toolweave chat` against a running server."""

import json
import signal
import socket
import stat
import sys
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.cli.command import Ended, Running, serving, started, terminal, toolweave
from tests.cli.processes import eventually


def test_one_message_gets_its_answer_and_the_thread_can_be_continued(sample_server: Running, tmp_path: Path) -> None:
    first = chat(sample_server, tmp_path, "echo", "hello", "there")
    assert (first.code, first.stdout) == (0, "You said: hello there\n")
    thread = first.stderr.split()[-1]
    second = chat(sample_server, tmp_path, "echo", "again", "--thread", thread)
    assert second.stdout == "You said: again\n"
    assert second.stderr.split()[-1] == thread


def test_without_a_message_it_is_a_conversation_line_by_line(sample_server: Running, tmp_path: Path) -> None:
    ended = chat(sample_server, tmp_path, "echo", stdin="one\n\n  two  \n")
    assert (ended.code, ended.stdout) == (0, "You said: one\nYou said: two\n")


def test_a_failed_turn_is_shown_and_the_conversation_goes_on(sample_server: Running, tmp_path: Path) -> None:
    ended = chat(sample_server, tmp_path, "fails", stdin="one\ntwo\n")
    assert ended.code == 0
    assert ended.stdout.count("The run failed: the disk is on fire") == 2
    assert chat(sample_server, tmp_path, "fails", "one").code == 1


def test_a_question_of_the_graph_is_shown_and_the_answer_resumes_the_run(
    sample_server: Running, tmp_path: Path
) -> None:
    ended = chat(sample_server, tmp_path, "asks", "hi", stdin="Bob\n")
    assert (ended.code, ended.stdout) == (0, "Hello Bob\n")
    assert "What is your name?" in ended.stderr


def test_an_approval_shows_the_call_and_passes_the_decision_on(sample_server: Running, tmp_path: Path) -> None:
    ended = chat(sample_server, tmp_path, "approves", "erase it", stdin='edit\n{"path": "b"}\n')
    assert ended.code == 0
    assert ended.stdout.splitlines()[0].startswith("  → erase(path=")
    assert ended.stdout.splitlines()[-1] == "The answer was edit."
    assert "\x1b" not in ended.stdout
    assert 'erase(path="a")\napprove / edit / reject> ' in ended.stderr


def test_an_unanswered_question_is_shown_again_when_the_thread_is_continued(
    sample_server: Running, tmp_path: Path
) -> None:
    thread = str(uuid4())
    left = chat(sample_server, tmp_path, "asks", "hi", "--thread", thread)
    assert (left.code, left.stdout) == (0, "")
    assert "The run waits for an answer." in left.stderr
    assert chat(sample_server, tmp_path, "asks", "--thread", thread, stdin="Eve\n").stdout == "Hello Eve\n"


def test_ctrl_c_stops_the_answer_but_not_the_conversation(sample_server: Running, tmp_path: Path) -> None:
    thread = str(uuid4())
    status = f"{sample_server.url}/threads/{thread}"
    arguments = ("--assistant", "waits", "--url", sample_server.url, "--thread", thread)
    with started("chat", *arguments, cwd=tmp_path, stdin="for ever\n") as talk:
        eventually(lambda: httpx.get(status, timeout=60).json().get("status") == "busy", "the run goes on")
        ended = talk.signalled(signal.SIGINT)
    assert ended.code == 0
    assert "Stopped." in ended.stderr
    eventually(lambda: httpx.get(status, timeout=60).json()["status"] != "busy", "the run is cancelled")


def test_a_local_server_has_the_servers_of_the_data_folder(elsewhere: Path) -> None:
    file = elsewhere / ".toolweave" / "mcp.jsonc"
    file.parent.mkdir()
    file.write_text("not json", encoding="utf-8")
    ended = toolweave("chat", "--local", cwd=elsewhere, stdin="hello\n")
    assert ended.code == 1
    assert ".toolweave/mcp.jsonc:1: not valid JSON5" in ended.paragraph


def test_a_local_server_has_its_tools_from_the_first_message_on(elsewhere: Path) -> None:
    ended = toolweave("chat", "--local", cwd=elsewhere, stdin="Add a task to buy milk\nWhat are my active tasks?\n")
    assert (ended.code, ended.stderr.count("\n")) == (0, 1), ended.stderr  # the line about the model
    lines = ended.stdout.splitlines()
    assert lines[0] == '  → create_todo(title="Buy milk")'
    assert lines[1].startswith("  ← create_todo: {")
    assert '  → list_todos(status="active")' in lines
    assert "Buy milk" in lines[-2]
    assert list(elsewhere.iterdir()) == []


@pytest.mark.requirement("U-01")
@pytest.mark.parametrize(("servers", "assistant"), [("todo", "todo_agent"), ("todo, time", "agent_loop")])
def test_our_own_graphs_answer_with_the_todo_agent_if_only_its_server_is_enabled(
    elsewhere: Path, servers: str, assistant: str
) -> None:
    entry = {"command": sys.executable, "args": ["-m", "toolweave.servers.todo"], "prefix": ""}
    (elsewhere / "mcp.jsonc").write_text(
        json.dumps({"mcpServers": {name: {**entry, "prefix": name[:4]} for name in servers.split(", ")}}),
        encoding="utf-8",
    )
    with terminal("chat", "--local", cwd=elsewhere, env={"TOOLWEAVE_MCP_CONFIG": "mcp.jsonc"}) as chat:
        assert f"assistant  {assistant}" in chat.read_until("you> ")


@pytest.mark.requirement("U-06")
def test_a_chat_on_a_terminal_has_commands_and_a_history(sample_server: Running, tmp_path: Path) -> None:
    (tmp_path / ".toolweave").mkdir()
    arguments = ("chat", "--assistant", "echo", "--url", sample_server.url)
    with terminal(*arguments, cwd=tmp_path) as chat:
        assert "assistant  echo" in chat.read_until("you> ")
        assert "/threads" in chat.send("/help")
        assert "Did you mean '/tools'?" in chat.send("/tolls")
        assert "You said: good morning" in chat.send("good morning")
        listed = chat.send("/threads")
        assert "good morning" in listed
        assert chat.send("/new").split("thread ")[1][:36] not in listed
        assert "unknown: the server does not report it" in chat.send("/model")
        ended = chat.send("/quit", until="\n") + chat.read_to_end()
        assert f"chat --assistant echo --url {sample_server.url} --thread " in ended
    history = tmp_path / ".toolweave" / "chat_history"
    assert "good morning" in history.read_text(encoding="utf-8")
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


# Slow: the SDK tries to connect for eight seconds.
@pytest.mark.slow
@pytest.mark.requirement("U-06")
def test_a_chat_goes_on_when_its_server_is_gone(tmp_path: Path) -> None:
    with (
        serving("--data-dir", "data", cwd=tmp_path) as server,
        terminal("chat", "--assistant", "agent_loop", "--url", server.url, cwd=tmp_path) as chat,
    ):
        chat.read_until("you> ")
        server.process.kill()
        server.process.wait()
        for line in ("/threads", "/model", "hi"):
            assert "Is the server still running?" in chat.send(line)
        assert "Continue with" in chat.send("/quit", until="Continue with")


# Slow: CPython loses a signal between the prompt and the wait for a key, which happens on a busy machine.
@pytest.mark.slow
@pytest.mark.requirement("U-06")
def test_ctrl_c_twice_leaves_a_chat_on_a_terminal(sample_server: Running, tmp_path: Path) -> None:
    with terminal("chat", "--assistant", "echo", "--url", sample_server.url, cwd=tmp_path) as chat:
        chat.read_until("you> ")
        assert "Ctrl-C again" in chat.send("\x03", until="you> ", end="")
        assert "Continue with" in chat.send("\x03", until="Continue with", end="")


def test_without_a_server_it_says_how_to_start_one(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    ended = toolweave("chat", "hi", "--url", url, cwd=tmp_path)
    assert (ended.code, ended.stdout) == (1, "")
    assert url in ended.paragraph
    assert "`toolweave dev`" in ended.paragraph


def test_an_invalid_url_and_an_invalid_thread_id_are_refused(tmp_path: Path) -> None:
    assert "no server answers here" in toolweave("chat", "hi", "--url", "nonsense", cwd=tmp_path).paragraph
    assert "no URL of a server" in toolweave("chat", "hi", "--url", "localhost:99999", cwd=tmp_path).paragraph
    assert toolweave("chat", "hi", "--thread", "nonsense", cwd=tmp_path).code == 2


def chat(server: Running, cwd: Path, assistant: str, *args: str, stdin: str = "") -> Ended:
    return toolweave("chat", *args, "--assistant", assistant, "--url", server.url, cwd=cwd, stdin=stdin)
