"""The demo runs without a key, and its output shows real results."""

import re
from pathlib import Path

import pytest

from tests.cli.command import Ended, cold_python

SCRIPT = Path(__file__).parents[1] / "scripts" / "demo.py"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Run the demo once, as `make demo` does; keys in the environment must not reach it."""
    env = {"OPENAI_API_KEY": "sk-not-used", "TOOLWEAVE_MODEL": "gpt-5", "TOOLWEAVE_PORT": "1"}
    return cold_python(str(SCRIPT), cwd=tmp_path_factory.mktemp("demo"), env=env, bound_s=250)


def test_the_demo_succeeds_without_a_key(demo: Ended) -> None:
    assert demo.code == 0, demo.stdout + demo.stderr
    assert demo.stderr == ""
    assert "with the model 'offline'" in demo.stdout.splitlines()[-1]


@pytest.mark.requirement("T-02")
@pytest.mark.requirement("O-03")
def test_each_request_shows_the_steps_of_the_graph(demo: Ended) -> None:
    turns = demo.stdout.split("\n5. ")[0].split("  you: ")[1:]
    steps = [[line for line in turn.splitlines() if re.match(r"    [a-z_]+ ", line)] for turn in turns]
    assert len(turns) == 8
    assert 'asks for create_todo(title="Buy milk")' in turns[0]
    assert 'priority="high"' in turns[1]
    assert 'asks for list_todos(status="active")' in turns[3]
    for turn, lines in zip(turns, steps, strict=True):
        assert [line.split()[0] for line in lines][:2] == ["check_tools", "call_model"], turn
        assert '"status":"success"' in turn.replace(" ", "")
        assert "answers" in lines[-1], turn
        assert int(re.findall(r"\((\d+) tokens streamed", turn)[0]) > 1


@pytest.mark.requirement("T-13")
def test_the_todos_are_in_the_database_afterwards(demo: Ended) -> None:
    stored = demo.stdout.split("3. What the MCP server has stored")[1]
    assert re.search(r"1 +Buy milk +completed +medium", stored)
    assert re.search(r"2 +Dentist appointment +active +high", stored)
    assert "plants" not in stored


@pytest.mark.requirement("S-05")
def test_a_killed_server_goes_on_where_it_was(demo: Ended) -> None:
    again = demo.stdout.split("4. Kill the server")[1]
    assert re.search(r"thread [0-9a-f-]{36}: \d+ messages, \d+ checkpoints, all still there", again)
    assert "Dentist appointment" in again


def test_the_graphs_are_mcp_tools_too(demo: Ended) -> None:
    offered = demo.stdout.split("5. Ask the same server")[1]
    assert re.search(r"^    todo_agent +\S", offered, re.MULTILINE)


def test_an_imported_api_is_called_by_instructions_and_every_stage_is_accounted_for(demo: Ended) -> None:
    *_, verne, ada, lent, flight = (
        demo.stdout.split("6. Call an HTTP API")[1].split("\n7. ")[0].split("POST /workflow: ")
    )
    assert re.search(r"request +GET http://127\.0\.0\.1:\d+/books author=Jules Verne\n", verne)
    assert '{"book_id": 2, "reader": "Ada"}' in ada
    assert re.search(r"answer +201", ada)
    assert re.search(r"api_execution .*409 Conflict", lent)
    assert "request" not in flight
    assert "demo-library-key" not in demo.stdout


def test_a_web_page_becomes_a_script_of_its_own_sentences(demo: Ended) -> None:
    shown = demo.stdout.split("7. Write the script")[1].split("\n8. ")[0]
    percents = re.findall(r"^    (\d+) %", shown, re.MULTILINE)
    assert (percents[0], percents[-1]) == ("0", "100")
    parts = re.findall(r"^      (\d\. .*?) *$", shown, re.MULTILINE)
    assert len(parts) >= 3
    narrated = " ".join(shown.split())
    page = " ".join((SCRIPT.parent / "demo_page.html").read_text(encoding="utf-8").split())
    for sentence in ("A small stove keeps the paper dry.", "Crime novels go first, as they do ashore."):
        assert sentence in page
        assert sentence in narrated
    assert "Opening hours" not in narrated


@pytest.mark.requirement("T-09")
def test_the_server_ends_clean_and_leaves_no_process(demo: Ended) -> None:
    assert re.search(r"exit code 0 after [0-9.]+ s; 1 subprocess\(es\), 0 left", demo.stdout)
    assert "MCP server todo: ready, 5 tools" in demo.stdout
