"""Hidden literals come back as they stood, and hide nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolweave.nodes.offline_model.english import hide_literals


@pytest.mark.requirement("O-02")
@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('say "hello there" now', ["hello there"]),
        ("say 'Dad's photos' and “more”", ["Dad's photos", "more"]),
        ("I don't know what's up", []),
        ("fetch https://example.com/a?b=1.", ["https://example.com/a?b=1"]),
        ("mail bob@example.com, please", ["bob@example.com"]),
        ("open /etc/hosts and docs/readme.md", ["/etc/hosts", "docs/readme.md"]),
        ("find *.py", ["*.py"]),
        ("it is 1/2 of 3.5, e.g. and/or", []),
        ('one " quote', []),
    ],
)
def test_literals_are_found(text: str, values: list[str]) -> None:
    hidden, literals = hide_literals(text)

    assert [literal.value for _, literal in literals.in_text(hidden)] == values
    assert literals.restore(f"x {hidden}") == f"x {text}"


@given(st.text(max_size=300))
def test_any_text_comes_back_but_for_private_characters(text: str) -> None:
    hidden, literals = hide_literals(text)
    kept = "".join(character for character in text if not "\ue000" <= character <= "\uf8ff")

    assert literals.restore(f"x {hidden}").split() == f"x {kept}".split()
