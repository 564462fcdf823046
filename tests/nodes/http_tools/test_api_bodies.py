"""Each response of an API becomes a value that checkpoints, streams and databases can store (W-06)."""

import base64
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from toolweave.nodes.http_tools.requests import HTTPResponseSpec
from toolweave.nodes.http_tools.responses import MAX_DEPTH, MAX_VALUES, EchoedSecrets, decode_body

NO_SECRETS = EchoedSecrets(())
JSON = "application/json"


def read(data: bytes, content_type: str = JSON) -> Any:
    body = decode_body(data, content_type, NO_SECRETS)
    assert body.encoding is None
    return stored(body.value)


def stored(value: Any) -> Any:
    """Put a value where the workflow's state goes, and take it out again."""
    assert orjson.loads(orjson.dumps(value)) == value
    serializer = JsonPlusSerializer()
    assert serializer.loads_typed(serializer.dumps_typed(value)) == value
    spec = HTTPResponseSpec(status_code=200, body=value, execution_time_ms=1)
    assert spec.model_dump(mode="json")["body"] == value
    return value


@pytest.mark.parametrize(
    ("data", "content_type", "value"),
    [
        (b'{"a": [1, 2.5, null, true, "x"]}', JSON, {"a": [1, 2.5, None, True, "x"]}),
        (b'{"a": 1}', "application/problem+json; charset=utf-8", {"a": 1}),
        (b'{"a": 1}', "APPLICATION/JSON", {"a": 1}),
        (b" \r\n[1]", "text/plain", [1]),
        (b'{"a": 1}', "", {"a": 1}),
        (b"null", JSON, None),
        (b"5", "text/plain", "5"),
        (b"\xef\xbb\xbf[1]", JSON, [1]),
        ('["ä"]'.encode("utf-16"), JSON, ["ä"]),
        (b'{"a": 1, "a": 2}', JSON, {"a": 2}),
        (b"{broken", JSON, "{broken"),
        (b"{}\n{}", "application/x-ndjson", "{}\n{}"),
        (b"", JSON, None),
        (b"[" * 100_000, JSON, "[" * 100_000),
    ],
)
def test_json_is_recognised_by_its_type_or_its_content(data: bytes, content_type: str, value: Any) -> None:
    assert read(data, content_type) == value


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("NaN", None),
        ("1e999", None),
        ("1e-999", 0.0),
        (str(2**63 - 1), 2**63 - 1),
        (str(-(2**63)), -(2**63)),
        (str(2**63), str(2**63)),
        ("9" * 10_000, "9" * 10_000),
        (r'"\ud800"', "?"),
        (r'"a\udc00b"', "a?b"),
        (r'"\ud83d\ude00"', "\U0001f600"),
        (r'"\u0000"', "\0"),
        (r'{"\ud800": 1}', {"?": 1}),
    ],
)
def test_values_that_no_store_accepts_are_replaced(written: str, value: Any) -> None:
    assert read(f"[{written}]".encode()) == [value]


@pytest.mark.parametrize("item", ["1", '{"a":[]}'])
def test_json_of_too_many_values_stays_text(item: str) -> None:
    each = 1 + sum(map(item.count, "[{")) - (item[0] in "[{")
    few, many = (f"[{','.join([item] * (count // each))}]" for count in (MAX_VALUES - 1, MAX_VALUES + 5))
    assert read(few.encode()) == json.loads(few)
    assert read(many.encode()) == many


def test_json_that_is_nested_too_deeply_stays_text() -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        fits = f"{opening * (MAX_DEPTH - 1)}[]{closing * (MAX_DEPTH - 1)}"
        assert not isinstance(read(fits.encode()), str)
        beyond = f"{opening * MAX_DEPTH}[]{closing * MAX_DEPTH}"
        assert read(beyond.encode()) == beyond
        bottomless = f"{opening * 5_000}1{closing * 5_000}"
        assert read(bottomless.encode()) == bottomless


@pytest.mark.parametrize(
    ("data", "content_type", "value"),
    [
        (b"plain", "text/plain", "plain"),
        ("Zoë".encode(), "text/html; charset=UTF-8", "Zoë"),
        ("Zoë".encode("latin-1"), "text/html; charset=iso-8859-1", "Zoë"),
        ("日本".encode("shift_jis"), "text/html; charset=Shift_JIS", "日本"),
        (b"Zo\xeb", "text/html", "Zo\ufffd"),
        ("Zoë".encode(), "text/html; charset=nonsense", "Zoë"),
        (b"<a/>", "application/xml", "<a/>"),
        ("Zoë".encode(), "", "Zoë"),
        ("Zoë".encode(), "garbage;;;=;charset", "Zoë"),
        ("\ufeffZoë".encode(), "text/plain", "Zoë"),
        # Codecs that are no charsets: they would unpack, decode twice or take quadratic time.
        (b"eJxLBAAAYgBi", "text/plain; charset=base64", "eJxLBAAAYgBi"),
        (rb"\ud800", "text/plain; charset=unicode_escape", r"\ud800"),
        (b"+2AA-", "text/plain; charset=utf-7", "+2AA-"),
        (b"xn--" + b"a" * 100_000, "text/plain; charset=idna", "xn--" + "a" * 100_000),
        (b"abc", "text/plain; charset=\x00", "abc"),
        (b"abc", f"text/plain; charset={'x' * 50_000}", "abc"),
    ],
)
def test_text_is_read_by_its_charset(data: bytes, content_type: str, value: str) -> None:
    assert read(data, content_type) == value


@pytest.mark.parametrize(
    "content_type", ["image/png", "", "application/octet-stream", "application/json", "a/b; charset=x"]
)
def test_bytes_are_written_in_base64(content_type: str) -> None:
    data = b"\x89PNG\r\n\x1a\n\x00\xff"
    body = decode_body(data, content_type, NO_SECRETS)
    assert body.encoding == "base64"
    assert base64.b64decode(stored(body.value)) == data


@given(data=st.binary(max_size=200), content_type=st.sampled_from([JSON, "text/plain", "", "a/b; charset=utf-16"]))
def test_no_bytes_make_a_value_that_cannot_be_stored(data: bytes, content_type: str) -> None:
    stored(decode_body(data, content_type, NO_SECRETS).value)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(value=_VALUES)
def test_no_json_makes_a_value_that_cannot_be_stored(value: Any) -> None:
    stored(decode_body(json.dumps(value).encode(), JSON, NO_SECRETS).value)
