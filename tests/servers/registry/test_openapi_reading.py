"""What can be read as an OpenAPI document, and how the rest is refused."""

import json
from datetime import date
from typing import Any

import pytest
import yaml

from tests.servers.registry.openapi_documents import document, operation
from toolweave.errors import DocumentRefused
from toolweave.servers.registry.openapi.document import read_document

HEAD = 'openapi: "3.1.0"\ninfo: {title: T, version: "1"}\npaths: {}\n'
CONTAINS_ITSELF: dict[str, Any] = document({})
CONTAINS_ITSELF["x-self"] = CONTAINS_ITSELF


def refusal(content: Any) -> str:
    with pytest.raises(DocumentRefused) as refused:
        read_document(content)
    text = str(refused.value)
    assert text.endswith(".")
    assert len(text) < 400
    return text


def test_json_yaml_bytes_and_dicts_of_the_same_document_are_read_alike() -> None:
    whole = document({"/pets": {"get": operation()}})
    text = json.dumps(whole)
    as_yaml = yaml.safe_dump(whole).replace("'200'", "200")
    for content in (whole, text, text.encode(), b"\xef\xbb\xbf" + text.encode(), as_yaml, as_yaml.encode()):
        assert read_document(content) == whole


def test_yaml_means_what_openapi_says_it_means_and_not_what_yaml_1_1_does() -> None:
    read = read_document(
        HEAD + "x-values: [no, on, Yes, 12:30:00, 2024-01-01, 2024-01-01T10:00:00Z, 0777, 0o17, 0x1F, 1_000, 1e3, ~,"
        " !!str 5, '5', true, .5, -7, 007, null]\nx-keys: {1: a, 2024-01-01: b, true: c, null: d, 1.0: e}\n"
    )
    assert read["x-values"] == [
        *("no", "on", "Yes", "12:30:00", "2024-01-01", "2024-01-01T10:00:00Z", 777, 15, 31, "1_000", 1000.0, None),
        *("5", "5", True, 0.5, -7, 7, None),
    ]
    assert read["x-keys"] == {"1": "a", "2024-01-01": "b", "true": "c", "null": "d", "1.0": "e"}
    read = read_document({**document({}), "x-since": date(2024, 1, 2), "x-codes": {200: "OK"}})
    assert (read["x-since"], read["x-codes"]) == ("2024-01-02", {"200": "OK"})


def test_anchors_aliases_and_merge_keys_are_written_out() -> None:
    read = read_document(
        HEAD + "x-a: &a {type: string, title: A}\nx-b: *a\nx-c: {<<: *a, title: C}\n"
        "x-d: {title: D, <<: [*a, {format: date, title: X}]}\nx-name: &n key\nx-e: {*n : 1}\n"
    )
    assert read["x-b"] == {"type": "string", "title": "A"}
    assert read["x-c"] == {"type": "string", "title": "C"}
    assert read["x-d"] == {"title": "D", "type": "string", "format": "date"}
    assert read["x-e"] == {"key": 1}


def test_what_cannot_be_stored_is_replaced_and_huge_integers_become_floats() -> None:
    read = read_document(
        '{"openapi": "3.0.0", "x-a": "a\\u0000b\\ud800", "x-b": 340282366920938463463374607431768211455}'
    )
    assert read["x-a"] == "a\ufffdb\ufffd"
    assert isinstance(read["x-b"], float)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "empty"),
        (b" \n", "empty"),
        (b"\xff\xfe\x00", "UTF-8"),
        ("{", "not valid JSON"),
        ('{"openapi": "3.1.0", "a": 1, "a": 2}', "'a' is there twice"),
        ('{"openapi": NaN}', "NaN"),
        ('{"openapi": "3.1.0", "a": 1e999}', "not finite"),
        (f'{{"openapi": "3.1.0", "a": {"9" * 5000}}}', "too long"),
        ("[" * 100_000, "nested"),
        ('{"a":' * 300 + "1" + "}" * 300, "nested"),
        ("just words", "object at its top level"),
        ("a: b: c", "not valid YAML"),
        ("a: 1\na: 2\n", "'a' is there twice"),
        ("a: *nowhere\n", "*nowhere has no anchor"),
        ("? [a]\n: 1\n", "key is a list"),
        ("a: !!python/object/apply:os.system [echo]\n", "YAML type"),
        ("a: !secret x\n", "YAML type !secret"),
        ("a: .inf\n", "not finite"),
        ("a: \x01\n", "not allow"),
        (HEAD + "---\na: 1\n", "more than one"),
        ('{"swagger": "2.0"}', "Swagger 2.0 document; convert it to OpenAPI 3"),
        ("openapi: 2.0.0\n", "version 3.0 or 3.1"),
        ('{"info": {}}', "it has no `openapi`"),
        ('{"openapi": "3.1.0", "paths": []}', "`paths`"),
        ({"openapi": "3.1.0", "x": object()}, "type object"),
        ({"openapi": "3.1.0", None: 1}, "keys must be text"),
        ({"openapi": "3.1.0", "x": float("nan")}, "not finite"),
        (CONTAINS_ITSELF, "nested more than 100"),
    ],
)
def test_content_that_is_no_document_is_refused_in_one_sentence(content: Any, expected: str) -> None:
    assert expected in refusal(content)


def test_a_document_over_the_size_is_refused_before_it_is_parsed() -> None:
    assert "10 MiB" in refusal(b"{" + b" " * (10 * 1024 * 1024))


@pytest.mark.parametrize(
    "content",
    [
        '{"openapi": "3.1.0", "x": [' + "[]," * 1_000_000,
        pytest.param(HEAD + "x-a: [" + "a," * 1_000_000, marks=pytest.mark.slow),
    ],
)
def test_more_than_a_million_values_are_refused_before_the_end_is_read(content: str) -> None:
    assert "more than 1,000,000" in refusal(content)


ALIAS_BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)
)
MERGED = ", ".join(f"k{n}: 1" for n in range(2_000))
MERGE_BOMB = f"x-a: &a {{{MERGED}}}\nx-b:\n" + "  <<: [" + "*a, " * 2_000 + "]\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(ALIAS_BOMB, "1,000,000 values", id="alias bomb"),
        pytest.param(MERGE_BOMB, "1,000,000 values", id="merge bomb"),
        ("x: &a [*a]\n", "nested more than 100"),
        ("x: &a {<<: *a, y: [*a]}\n", "nested more than 100"),
        pytest.param("x: " + "- " * 50_000, "", id="deep items"),
        pytest.param("x: " + "{a: " * 50_000, "", id="deep objects"),
    ],
)
def test_yaml_that_stands_for_too_much_is_refused(text: str, expected: str) -> None:
    assert expected in refusal(HEAD + text)
