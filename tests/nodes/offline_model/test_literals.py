"""Quoted texts, URLs, addresses and paths are found in a request and restored unchanged (O-02)."""

import pytest

from toolweave.nodes.offline_model.english import hide_literals


@pytest.mark.requirement("O-02")
@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("say 'Dad's photos' and “more”", ["Dad's photos", "more"]),
        ("I don't know what's up", []),
        ("mail bob@example.com, or see https://example.com/a?b=1.", ["bob@example.com", "https://example.com/a?b=1"]),
        ("open /etc/hosts and docs/readme.md", ["/etc/hosts", "docs/readme.md"]),
        ("it is 1/2 of 3.5, e.g. and/or", []),
    ],
)
def test_literals_are_found_and_restored(text: str, values: list[str]) -> None:
    hidden, literals = hide_literals(text)

    assert [literal.value for _, literal in literals.in_text(hidden)] == values
    assert literals.restore(f"x {hidden}") == f"x {text}"
