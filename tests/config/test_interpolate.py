"""References are filled in once, on parsed values, and only variables without value or default are missing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolweave.config.variables import fill_references, find_unresolved, holds_reference, malformed_references

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
PLAIN = st.text(st.characters(exclude_characters="{}$"), max_size=10)

pytestmark = pytest.mark.requirement("A-06")


@pytest.mark.parametrize(
    ("text", "environ", "result"),
    [
        ("{env:A}", {"A": "1"}, "1"),
        ("${env:A}", {"A": "1"}, "1"),
        ("Bearer {env:A}!", {"A": "1"}, "Bearer 1!"),
        ("{env:A}{env:B}", {"A": "1", "B": "2"}, "12"),
        ("{env:A:-b}", {}, "b"),
        ("${env:A:-b}", {}, "b"),
        ("{env:A:-b}", {"A": ""}, "b"),
        ("{env:A:-}", {}, ""),
        ("{env:A:-http://h:1/x?y=z}", {}, "http://h:1/x?y=z"),
        ("{env:A:-b}", {"A": "a"}, "a"),
        ("$A ${A} {A} %A%", {"A": "1"}, "$A ${A} {A} %A%"),
    ],
)
def test_each_form_of_reference_is_filled_in(text: str, environ: dict[str, str], result: str) -> None:
    assert find_unresolved(text, environ).problem is None
    assert fill_references(text, environ) == result


def test_values_at_every_depth_are_filled_in_and_keys_are_not() -> None:
    value = {"{env:A}": ["{env:A}", 1, None, {"b": "{env:A}"}]}
    assert fill_references(value, {"A": "x"}) == {"{env:A}": ["x", 1, None, {"b": "x"}]}


@given(PLAIN, NAMES, st.text(min_size=1), PLAIN)
def test_a_value_is_inserted_as_it_is_and_never_read_again(before: str, name: str, value: str, after: str) -> None:
    assert fill_references(f"{before}{{env:{name}}}{after}", {name: value}) == f"{before}{value}{after}"
    assert fill_references(f"{{env:{name}}}", {name: "{env:OTHER}", "OTHER": "x"}) == "{env:OTHER}"


@given(st.lists(st.tuples(NAMES, st.booleans(), st.booleans())))
def test_exactly_the_variables_without_value_and_default_are_missing(uses: list[tuple[str, bool, bool]]) -> None:
    environ = {name: "x" for name, is_set, _ in uses if is_set}
    texts = [f"{{env:{name}:-d}}" if has_default else f"${{env:{name}}}" for name, _, has_default in uses]
    expected = dict.fromkeys(name for name, _, has_default in uses if not has_default and name not in environ)
    assert find_unresolved(texts, environ).missing == tuple(expected)


def test_the_problem_names_every_missing_variable_and_the_fix() -> None:
    problem = find_unresolved({"a": "{env:ONE}", "b": ["{env:TWO}", "{env:ONE}"]}, {"TWO": ""}).problem
    assert problem is not None
    assert "ONE, TWO are not set" in problem
    assert "{env:NAME:-default}" in problem


@pytest.mark.parametrize("name", ["workspaceFolder", "userHome", "/"])
def test_what_only_an_editor_knows_is_refused_by_name(name: str) -> None:
    problem = find_unresolved(f"${{{name}}}/data", {}).problem
    assert problem is not None
    assert f"${{{name}}}" in problem


def test_an_input_is_refused_by_name() -> None:
    references = find_unresolved({"env": {"KEY": "${input:api-key}"}}, {})
    assert references.editor_only == ("${input:api-key}",)
    assert references.problem is not None
    assert "${input:api-key}" in references.problem


@pytest.mark.parametrize("text", ["{env:}", "{env:MY-VAR}", "{env:A", "{env:A:b}", "${env:A:-{env:B}}", "${input:a"])
def test_what_looks_like_a_reference_but_is_none_is_found(text: str) -> None:
    assert malformed_references({"args": ["fine", text]}) == [("args", 1)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("{env:A}", True),
        ([{"a": "${input:x}"}], True),
        ("${userHome}", True),
        ("$A {A}", False),
        (1, False),
        (None, False),
    ],
)
def test_references_are_seen_at_any_depth(value: Any, expected: bool) -> None:
    assert holds_reference(value) is expected
    assert malformed_references(value) == []
