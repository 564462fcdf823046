"""JSON and times come back exactly as they were stored."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolweave.errors import InvalidRequest
from toolweave.runtime.codec import from_json, from_micros, to_json, to_micros

any_text = st.text(st.characters(exclude_categories=()))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4), max_leaves=12
)


@given(documents)
def test_json_is_storable_text_and_comes_back_as_it_was(document: Any) -> None:
    text = to_json(document)
    text.encode("utf-8")
    assert from_json(text) == document


def test_a_value_that_is_not_json_is_refused_as_a_request() -> None:
    with pytest.raises(InvalidRequest, match="not JSON serializable"):
        to_json({"value": object()})


def nested(levels: int) -> dict[str, Any]:
    """Return an object of this depth that orjson leaves to the json module."""
    document: dict[str, Any] = {"n": 10**40}
    for _ in range(levels - 1):
        document = {"in": document}
    return document


def test_deep_nesting_is_stored_and_read_or_refused_as_a_request() -> None:
    document = nested(250)
    assert to_json(from_json(to_json(document))) == to_json(document)
    with pytest.raises(InvalidRequest, match="Not storable as JSON: Recursion limit reached"):
        to_json(nested(100_000))


@given(st.datetimes(timezones=st.just(UTC)))
def test_moments_come_back_to_the_microsecond(moment: datetime) -> None:
    assert from_micros(to_micros(moment)) == moment


def test_a_moment_of_another_zone_comes_back_in_utc() -> None:
    moment = datetime(2026, 11, 21, 21, 33, 17, 102871, tzinfo=timezone(timedelta(hours=1)))
    assert from_micros(to_micros(moment)).isoformat() == "2026-11-21T20:33:17.102871+00:00"
