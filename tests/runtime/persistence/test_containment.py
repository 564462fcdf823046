"""Containment decides what a metadata or values filter finds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolweave.runtime.codec import to_json
from toolweave.runtime.persistence.search import contains, json_contains

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "b"])
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("document", "pattern", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"n": {"a": 1, "b": 2}}, {"n": {"a": 1}}, True),
        ({"n": 1}, {"n": {"a": 1}}, False),
        ({"tags": ["x", "y"]}, {"tags": ["y"]}, True),
        ({"tags": ["x"]}, {"tags": ["x", "y"]}, False),
        ({"on": True}, {"on": 1}, False),
        ({"on": 1}, {"on": True}, False),
        ({"on": 1.0}, {"on": 1}, True),
        ({"gone": None}, {"gone": None}, True),
        ({}, {"gone": None}, False),
    ],
)
def test_containment_by_example(document: Any, pattern: Any, expected: bool) -> None:
    assert contains(document, pattern) is expected
    assert json_contains(to_json(document), to_json(pattern)) is expected


@given(st.dictionaries(st.sampled_from("xyz"), documents), st.dictionaries(st.sampled_from("xyz"), documents))
def test_a_document_contains_every_part_that_was_merged_into_it(document: Any, part: Any) -> None:
    assert contains({**document, **part}, part)


def test_a_pattern_that_is_nested_too_deeply_is_not_found() -> None:
    deep = '{"a":' * 1000 + "1" + "}" * 1000
    assert json_contains(deep, deep) is False
