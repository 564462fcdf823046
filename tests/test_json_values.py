"""Values of a JSON text are counted before it is parsed, wherever it is cut, and marks in texts are not values."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolweave.json_values import MAX_VALUES, ValueCounter, has_more_values

VALUES = st.recursive(
    st.integers() | st.text(alphabet='a,"[{\\b'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='k,"{\\'), inner),
)


def marks(part: Any) -> int:
    """Count the commas and opening brackets of a value's JSON."""
    if not isinstance(part, list | dict):
        return 0
    inner = part.values() if isinstance(part, dict) else part
    return 1 + max(len(part) - 1, 0) + sum(map(marks, inner))


@given(VALUES, st.lists(st.integers(0, 10**6)))
def test_values_are_counted_wherever_their_text_is_cut_and_marks_in_texts_are_not(value: Any, cuts: list[int]) -> None:
    text = json.dumps(value).encode()
    edges = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    count = ValueCounter()
    assert sum(count.add(text[begin:end]) for begin, end in pairwise(edges)) == marks(value)


@pytest.mark.requirement("R-03")
async def test_a_long_text_full_of_commas_is_one_value_and_a_list_of_as_many_is_too_many() -> None:
    assert not await has_more_values(json.dumps({"text": "a,[{\\" * MAX_VALUES}).encode())
    items: list[Any] = [0, "text", [], {}, {"a": 1}, [[]]]
    for item in items:
        assert await has_more_values(json.dumps({"rows": [item] * (MAX_VALUES + 1)}).encode())
        assert not await has_more_values(json.dumps({"rows": [item] * (MAX_VALUES // 4)}).encode())
    assert await has_more_values(b"[" * (MAX_VALUES + 1))
