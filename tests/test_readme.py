"""The README is true: its commands exist, its configuration loads, its example runs."""

import re
from pathlib import Path

import pytest

from tests.fixtures.doc_pages import code_blocks
from tests.fixtures.openai_wire import WireCall, WireTurn, openai_wire

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_first_screen_names_the_two_commands_and_the_gate_runs_one_of_them() -> None:
    first_screen = README.splitlines()[:12]
    for command in ("make demo", "make test"):
        assert any(line.startswith(command) for line in first_screen)
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_every_make_target_it_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"\bmake ([a-z]+)\b", README))
    assert {target for target in named if f"\n{target}:" not in makefile} == set()


def test_its_embedding_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = [block for block in code_blocks(README, "python") if "build_agent_loop" in block]
    turns = [WireTurn(calls=(WireCall("get_time", '{"city": "Kyoto"}'),)), WireTurn(text="It is 12:00 in Kyoto.")]
    with openai_wire(turns) as model:
        monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        exec(example, {})  # noqa: S102
    assert capsys.readouterr().out == "It is 12:00 in Kyoto.\n"
