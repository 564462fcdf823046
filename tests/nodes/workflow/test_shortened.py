"""An API's answer as a text of bounded length."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolweave.nodes.workflow.prompting import LONGEST, shortened

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=20), inner, max_size=12),
    max_leaves=60,
)


def test_what_is_short_enough_stays_as_it_is() -> None:
    value = {"a": [1, None, "ä"], "b": {"c": 1.5}}

    assert shortened(value) == ('{"a": [1, null, "ä"], "b": {"c": 1.5}}', False)
    assert shortened("plain\ntext") == ("plain\ntext", False)


def test_a_long_list_is_cut_between_its_items_and_says_how_many_are_missing() -> None:
    items = [{"id": number, "name": f"product {number}"} for number in range(10_000)]

    text, cut = shortened({"total": 10_000, "items": items, "page": 1})

    told = json.loads(text)
    assert cut
    assert LONGEST * 0.9 < len(text) <= LONGEST
    kept = told["items"][:-1]
    assert kept == items[: len(kept)]
    assert told["items"][-1] == f"… {10_000 - len(kept)} more items"
    assert (told["total"], told["page"]) == (10_000, 1)


def test_a_long_text_is_cut_and_says_how_long_it_was() -> None:
    text, cut = shortened("x" * 100_000)

    assert cut
    assert len(text) == LONGEST
    assert text.endswith("xx… (100000 characters in all)")


def test_one_huge_text_leaves_the_fields_beside_it_whole() -> None:
    text, cut = shortened({"id": 7, "log": "y" * 1_000_000, "status": "paid"})

    told = json.loads(text)
    assert cut
    assert (told["id"], told["status"]) == (7, "paid")
    assert told["log"].startswith("yyyy")
    assert len(told["log"]) > LONGEST / 2


def nested(depth: int) -> Any:
    value: Any = "x" * 100
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        nested(400),
        [["x" * 50_000]] * 3,
        {f"field {number}": "x" * 100 for number in range(5_000)},
        {"k" * 100_000: 1, "b": "x" * 90_000},
        [{"a": [{"b": ["z" * 60_000] * 5}] * 5}] * 5,
        ["\u0000" * 50_000],
        ['"' * 50_000, '"' * 50_000],
        [10**300] * 2_000,
    ],
    ids=["deep", "long items", "many fields", "long key", "large inside large", "escapes", "quotes", "numbers"],
)
def test_odd_shapes_are_bounded_too(value: Any) -> None:
    text, cut = shortened(value)

    assert cut == (len(json.dumps(value, ensure_ascii=False)) > LONGEST)
    assert len(text) <= LONGEST


@given(JSON, st.integers(min_value=120, max_value=600))
def test_any_answer_fits_and_is_whole_or_marked(value: Any, longest: int) -> None:
    text, cut = shortened(value, longest)

    assert len(text) <= longest
    if not cut:
        assert text == (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    else:
        assert "…" in text


def test_an_answer_that_is_nested_too_deeply_to_be_written_is_cut() -> None:
    text, cut = shortened(nested(20_000))

    assert cut
    assert len(text) <= LONGEST
