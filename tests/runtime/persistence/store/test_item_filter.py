"""What a filter finds (langgraph_api.md sections 2.6 and 10)."""

from typing import Any

import pytest

from toolweave.runtime.persistence.store.item_filter import check_filter, fits

VALUE = {"n": 2, "half": 0.5, "word": "pear", "digits": "10", "on": True, "none": None, "list": [1, 2], "o": {"p": 1}}


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"n": 2},
        {"n": 2.0},
        {"n": 2, "word": "pear"},
        {"n": {"$gt": 1, "$lt": 3}},
        {"n": {"$gte": "2"}},
        {"digits": {"$gt": 9}},
        {"word": {"$gt": "apple"}},
        {"n": {"$ne": 3}},
        {"gone": {"$ne": 3}},
        {"gone": None},
        {"none": {"$eq": None}},
        {"on": True},
        {"list": [1, 2]},
        {"o": {"p": 1}},
        {"o": {"p": {"$lte": 1}}},
        {"o": {}},
    ],
)
def test_a_value_fits(wanted: dict[str, Any]) -> None:
    check_filter(wanted)
    assert fits(VALUE, wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        {"n": "2"},
        {"n": {"$gt": 2}},
        {"n": {"$gt": 1, "$lt": 2}},
        {"word": {"$gt": 1}},
        {"word": {"$gt": "zebra"}},
        {"gone": {"$gt": 0}},
        {"gone": {"$lte": 0}},
        {"none": {"$gte": 0}},
        {"list": {"$gt": 0}},
        {"n": {"$gt": None}},
        {"n": {"$gt": [1]}},
        {"n": {}},
        {"list": [1]},
        {"list": [2, 1]},
        {"o": {"p": 2}},
        {"o.p": 1},
        {"o": {"p": {"q": 1}}},
        {"n": 10**400},
        {"n": {"$gt": 10**400}},
    ],
)
def test_a_value_does_not_fit(wanted: dict[str, Any]) -> None:
    check_filter(wanted)
    assert not fits(VALUE, wanted)


@pytest.mark.parametrize("wanted", [{"n": {"$in": [1]}}, {"o": {"p": {"$gt": 1, "x": 2}}}, {"list": [{"$bad": 1}]}])
def test_an_unknown_operator_is_refused_before_any_item_is_read(wanted: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Unsupported operator"):
        check_filter(wanted)
