"""JSON bodies are read one way only."""

import pytest
from fastapi import HTTPException

from toolweave.api.request_bodies import MAX_DEPTH, strict_json


def test_json_is_parsed_unchanged() -> None:
    body = '{"a": [1, 2.5, null, true, "é💥"], "b": {"a": {}}, "n": 1e400}'.replace("1e400", "12345678901234567890123")
    assert strict_json(body.encode()) == {"a": [1, 2.5, None, True, "é💥"], "b": {"a": {}}, "n": 1.2345678901234568e22}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b'{"a": NaN}', "not JSON"),
        (b'{"a": "\xff"}', "not JSON"),
        ('{"a": 1}'.encode("utf-16"), "not JSON"),
        (b'\xef\xbb\xbf{"a": 1}', "not JSON"),
        (rb'{"a": "\ud800"}', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "nested more than"),
        (b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1), "nested more than"),
        (b'{"a": 1, "a": 1}', "twice"),
        (rb'{"b": [{"tool_id": 1, "tool\u005fid": 2}]}', "twice"),
    ],
)
def test_ambiguous_and_invalid_json_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(HTTPException, match=reason) as refused:
        strict_json(body)
    assert refused.value.status_code == 422


def test_as_many_levels_as_are_allowed_are_read() -> None:
    assert strict_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH) is not None


def test_numbers_of_many_digits_are_read_or_refused() -> None:
    with pytest.raises(HTTPException, match="not JSON"):
        strict_json(b"[" + b"7" * 5_000 + b"]")
    assert strict_json(b"[0." + b"7" * 5_000 + b"]") == [0.7777777777777778]
