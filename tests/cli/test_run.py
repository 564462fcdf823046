"""`toolweave run` against a running server."""

import json
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from tests.cli.command import MCP_SERVER, SAMPLE_APP, Ended, Running, toolweave
from tests.fixtures.openai_wire import WireTurn, openai_wire
from toolweave.cli.run import parse_input


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (None, None),
        ('{"n": 1}', {"n": 1}),
        ("buy milk", {"messages": [{"role": "user", "content": "buy milk"}]}),
        ("42", {"messages": [{"role": "user", "content": "42"}]}),
        ("", {"messages": [{"role": "user", "content": ""}]}),
    ],
)
def test_input_is_a_json_object_or_a_message(text: str | None, value: object) -> None:
    assert parse_input(text) == value


def test_a_run_prints_the_answer_or_the_state_where_there_are_no_messages(
    sample_server: Running, tmp_path: Path
) -> None:
    assert run(sample_server, tmp_path, "echo", "good morning") == Ended(0, "You said: good morning\n", "")
    assert json.loads(run(sample_server, tmp_path, "counts", '{"n": 41}').stdout) == {"n": 42}


def test_the_whole_state_comes_as_json(sample_server: Running, tmp_path: Path) -> None:
    state = json.loads(run(sample_server, tmp_path, "echo", "--json", "-", stdin="from a pipe").stdout)
    assert [message["content"] for message in state["messages"]] == ["from a pipe", "You said: from a pipe"]


def test_streamed_events_are_lines_of_json_of_the_requested_modes(sample_server: Running, tmp_path: Path) -> None:
    ended = run(sample_server, tmp_path, "counts", '{"n": 1}', "--stream", "updates", "--stream", "tasks")
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    assert {event["event"] for event in events} == {"metadata", "updates", "tasks"}
    assert {"event": "updates", "data": {"increase": {"n": 2}}} in events


def test_a_failed_run_fails_the_command_with_the_reason(sample_server: Running, tmp_path: Path) -> None:
    assert run(sample_server, tmp_path, "fails", "x") == Ended(1, "", "The run failed: the disk is on fire\n")
    assert run(sample_server, tmp_path, "fails", "x", "--stream", "updates").code == 1


def test_an_interrupted_run_shows_its_question_and_how_to_answer(sample_server: Running, tmp_path: Path) -> None:
    thread = str(uuid4())
    ended = run(sample_server, tmp_path, "asks", "x", "--thread", thread)
    assert (ended.code, ended.stdout) == (0, "")
    assert "What is your name?" in ended.stderr
    _, _, command = ended.stderr.partition("Continue with: ")
    assert command.strip().endswith(f" chat --assistant asks --url {sample_server.url} --thread {thread}")


def test_a_refusal_of_the_server_is_one_paragraph(sample_server: Running, tmp_path: Path) -> None:
    unknown = str(uuid4())
    ended = run(sample_server, tmp_path, unknown, "x")
    assert ended.code == 1
    assert ended.paragraph.startswith(f"Request refused: {sample_server.url} answered 404: ")


@pytest.mark.requirement("U-01")
def test_an_application_with_several_graphs_needs_the_name_of_one(sample_server: Running, tmp_path: Path) -> None:
    without = toolweave("run", "x", "--url", sample_server.url, cwd=tmp_path)
    assert (without.code, without.stdout) == (1, "")
    assert "several assistants: approves, asks, counts, echo, fails, " in without.paragraph
    assert run(sample_server, tmp_path, "ehco", "x").paragraph.endswith("Did you mean 'echo'?")
    assert "Known: approves, asks, " in run(sample_server, tmp_path, "nobody", "x").paragraph


@pytest.mark.parametrize("text", ['{"n": ', "[1, 2", '  {"n" 1}', '{"n": NaN}', "[" * 100_000])
def test_input_that_begins_like_json_and_does_not_parse_is_refused(text: str, tmp_path: Path) -> None:
    ended = toolweave("run", text, cwd=tmp_path)
    assert (ended.code, ended.stdout) == (1, "")
    assert "is not valid JSON: " in ended.paragraph


def test_input_that_is_no_utf_8_text_is_refused(sample_server: Running, tmp_path: Path) -> None:
    ended = run(sample_server, tmp_path, "echo", "gr\udcfc")
    assert (ended.code, ended.paragraph) == (1, "Request refused: the input cannot be sent: str is not valid UTF-8.")


@pytest.mark.requirement("U-06")
def test_a_wrong_key_is_one_line(elsewhere: Path) -> None:
    with openai_wire([WireTurn(status=401)] * 3) as model:
        env = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "wrong", "TOOLWEAVE_MODEL": "m"}
        ended = toolweave("run", "hi", "--local", cwd=elsewhere, env=env)
    [about_model, failure] = ended.stderr.splitlines()
    assert (about_model, failure[:15]) == ("The model is m (OPENAI_BASE_URL is set)", "The run failed:")


def test_a_url_without_a_scheme_is_an_http_url(sample_server: Running, tmp_path: Path) -> None:
    address = sample_server.url.removeprefix("http://")
    ended = toolweave("run", "hi", "--assistant", "echo", "--url", address, cwd=tmp_path)
    assert ended == Ended(0, "You said: hi\n", "")
    variable = {"TOOLWEAVE_API_URL": address}
    assert toolweave("run", "hi", "--assistant", "echo", cwd=tmp_path, env=variable) == ended


def test_a_mode_that_does_not_exist_is_wrong_usage(sample_server: Running, tmp_path: Path) -> None:
    ended = run(sample_server, tmp_path, "echo", "x", "--stream", "everything")
    assert ended.code == 2
    assert "everything" in ended.stderr


def test_local_runs_a_server_with_a_temporary_folder(elsewhere: Path) -> None:
    (elsewhere / "langgraph.json").write_text(
        json.dumps({"graphs": {"echo": f"{SAMPLE_APP.parent}/sample.py:echo"}}), encoding="utf-8"
    )
    assert toolweave("run", "hi", "--local", cwd=elsewhere) == Ended(0, "You said: hi\n", "")
    assert [path.name for path in elsewhere.iterdir()] == ["langgraph.json"]


@pytest.mark.requirement("U-02")
def test_an_mcp_file_of_another_client_starts_a_local_server_with_its_servers(elsewhere: Path) -> None:
    entry = {"command": sys.executable, "args": [str(MCP_SERVER)], "tools": {"include": ["echo"]}}
    (elsewhere / "mine.json").write_text(json.dumps({"tasks": entry}), encoding="utf-8")
    ended = toolweave("run", "What can you do?", "--mcp", "mine.json", cwd=elsewhere)
    assert ended.code == 0, ended.stderr
    assert "tasks_echo" in ended.stdout
    assert "The model is offline, " in ended.stderr
    assert [path.name for path in elsewhere.iterdir()] == ["mine.json"]
    (elsewhere / "dead.json").write_text('{"gone": {"command": "no-such-program"}}', encoding="utf-8")
    without = toolweave("run", "x", "--mcp", "dead.json", cwd=elsewhere)
    assert without.stderr.count("MCP server gone is down: no-such-program was not found. Install this program") == 1
    refused = toolweave("run", "x", "--mcp", "mine.json", "--url", "http://h.example", cwd=elsewhere)
    assert (refused.code, "leave out --url" in refused.stderr) == (2, True)
    absent = toolweave("chat", "x", "--mcp", "absent.json", cwd=elsewhere)
    assert absent.paragraph == (
        "Configuration error: absent.json: the file does not exist. Create it or correct the path."
    )


def test_a_local_server_that_cannot_start_shows_the_error(elsewhere: Path) -> None:
    (elsewhere / "langgraph.json").write_text('{"graphs": {"echo": "./absent.py:echo"}}', encoding="utf-8")
    ended = toolweave("run", "hi", "--local", cwd=elsewhere)
    assert (ended.code, ended.stdout) == (1, "")
    assert "absent.py" in ended.paragraph


def test_certificates_that_cannot_be_loaded_are_an_error_that_names_the_variable(elsewhere: Path) -> None:
    ended = toolweave("run", "hi", "--local", cwd=elsewhere, env={"SSL_CERT_FILE": "/no/such/file"})
    assert (ended.code, "Correct SSL_CERT_FILE or SSL_CERT_DIR." in ended.paragraph) == (1, True)


def run(server: Running, cwd: Path, assistant: str, *args: str, stdin: str = "") -> Ended:
    return toolweave("run", *args, "--assistant", assistant, "--url", server.url, cwd=cwd, stdin=stdin)
