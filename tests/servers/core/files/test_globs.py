"""A glob matches what it says, and no glob takes long."""

import re
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolweave.servers.core.files.tools import Glob


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("**/b/**/c", "b/x/b/c", True),
        ("**/b/c", "b/x/b/c", True),
        ("*.{py,md}", "a.py", False),
        ("[!a]x", "bx", True),
        ("[", "[", True),
        ("[[]x", "[x", True),
        ("a.b", "aXb", False),
        ("/a/b", "a/b", True),
        ("new\nline", "new\nline", True),
    ],
)
def test_a_glob_matches_within_names_and_across_folders(pattern: str, path: str, matches: bool) -> None:
    assert Glob(pattern).matches(path.split("/")) is matches


PARTS = st.sampled_from(["a", "b", "ab", "aab", "*", "a*", "*b", "?", "**", "*a*"])


@given(st.lists(PARTS, min_size=2, max_size=6), st.lists(st.sampled_from(["a", "b", "ab", "ba", "aab"]), max_size=6))
def test_a_glob_means_the_same_as_its_regular_expression(pattern: list[str], path: list[str]) -> None:
    expression = "".join(
        "(?:[^/]+/)*" if part == "**" else re.escape(part).replace(r"\*", "[^/]*").replace(r"\?", "[^/]") + "/"
        for part in pattern
    )
    expected = re.fullmatch(expression, "".join(f"{part}/" for part in path)) is not None
    assert Glob("/".join(pattern)).matches(path) is expected


@given(st.text(st.sampled_from("a*?[]!-^\\/.&|~é"), min_size=1, max_size=30), st.text("ab/[]é", min_size=1))
def test_any_text_is_a_glob(pattern: str, path: str) -> None:
    assert Glob(pattern, ignore_case=True).matches(PurePosixPath(path.lstrip("/") or "a").parts) in {True, False}


def test_globs_made_to_be_slow_are_not() -> None:
    assert not Glob("*a" * 249 + "b").matches(["a" * 255])
    assert not Glob("a/" + "**/*a*a*a*a*b/" * 30).matches(["a" * 200] * 60)
    assert not Glob("?*" * 249 + "b").matches(["a" * 255])
