"""README.md and docs/install.md are true: their commands exist (tests/packaging/test_quickstarts.py runs examples)."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README, INSTALL = ((ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/install.md"))


def test_the_first_screen_names_the_two_commands_and_the_gate_runs_one_of_them() -> None:
    first_screen = README.splitlines()[:12]
    for command in ("make demo", "make test"):
        assert any(line.startswith(command) for line in first_screen)
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_every_make_target_that_they_name_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"\bmake ([a-z]+)\b", README + INSTALL))
    assert {target for target in named if f"\n{target}:" not in makefile} == set()
