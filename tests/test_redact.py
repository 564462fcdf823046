"""Secrets are found by their names and forms; nothing that a value can be makes this fail or take long."""

import json
import re
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from toolweave.redact import CUT_MARK, HIDDEN, MAX_CHARS, MAX_DEPTH, MAX_ITEMS, MAX_TOTAL_CHARS, redact, redact_text

SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    "name",
    [
        *("PASSWORD", "passwd", "db.password", "userPassword", "pwd", "passphrase", "secret", "clientSecret"),
        *("client-secret", "token", "access_token", "Refresh-Token", "api_key", "apikey", "API KEY", "X-Api-Key"),
        *("authorization", "Proxy-Authorization", "cookie", "Set-Cookie", "credentials", "private_key"),
        *("aws_access_key", "session_id", "jwt", "otp"),
    ],
)
def test_any_value_under_the_name_of_a_secret_is_hidden(name: str) -> None:
    for value in (SECRET, [SECRET], {"value": SECRET}, 12345):
        assert redact({name: value, "title": "milk"}) == {name: HIDDEN, "title": "milk"}


@pytest.mark.parametrize(
    "name", ["title", "max_tokens", "tokens", "author", "key", "keyword", "description", "session"]
)
def test_ordinary_names_keep_their_values(name: str) -> None:
    assert redact({name: "Buy milk"}) == {name: "Buy milk"}


def test_a_name_for_a_secret_without_one_stays_as_it_is() -> None:
    assert redact({"password": None, "token": True}) == {"password": None, "token": True}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Authorization: Bearer abc.def-123", "Authorization: ***"),
        ("got bearer abcdef123 from it", "got bearer *** from it"),
        ("Basic dXNlcjpwYXNz", "Basic ***"),
        ("use sk-proj-abcdefghijkl now", "use *** now"),
        ("ghp_abcdefghijklmnopqrst", "***"),
        ("github_pat_11ABCDEFG0123456789", "***"),
        ("AKIAIOSFODNN7EXAMPLE!", "***!"),
        ("jwt eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl end", "jwt *** end"),
        ("postgresql://ann:p@ss@db:5432/x", "postgresql://***@db:5432/x"),
        ("https://h/p?page=2&api_key=abc123&q=1", "https://h/p?page=2&api_key=***&q=1"),
        ("password=hunter2;next", "password=***;next"),
        ('{"password": "correct \\"horse\\" battery", "n": 1}', '{"password": ***", "n": 1}'),
        ('{\\"token\\": \\"correct horse\\", \\"n\\": 1}', '{\\"token\\": ***\\", \\"n\\": 1}'),
        ("Set-Cookie: id=a; path=/\nnext", "Set-Cookie: ***\nnext"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nnext", "***\nnext"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE, and no end", "***"),
    ],
)
def test_text_in_the_form_of_a_secret_is_hidden(text: str, left: str) -> None:
    assert redact_text(text) == left
    assert redact({"note": [text]}) == {"note": [left]}


@pytest.mark.parametrize(
    "text", ["the secret is out", "max_tokens: 5", "a task-management tool", "basic understanding", "http://h/a@b"]
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert redact_text(text) == text


def test_a_cut_removes_the_beginning_of_a_secret_too() -> None:
    text = "x" * (MAX_CHARS - 10) + SECRET
    assert redact_text(text, lambda part: part.replace(SECRET, HIDDEN)) == "x" * (MAX_CHARS // 2) + CUT_MARK


def test_values_are_bounded_in_depth_number_and_length() -> None:
    deep: Any = "bottom"
    for _ in range(50_000):
        deep = [deep]
    assert json.dumps(redact(deep)).count("[") == MAX_DEPTH
    assert len(redact(list(range(100_000)))) <= MAX_ITEMS + 1
    assert len(redact({str(number): number for number in range(100_000)})) <= MAX_ITEMS + 1
    assert len(json.dumps(redact(["y" * 20_000_000] * 500))) < MAX_TOTAL_CHARS + 20 * MAX_ITEMS


def test_a_value_that_contains_itself_ends() -> None:
    ring: list[Any] = [{"password": SECRET}]
    ring.append(ring)
    table: dict[str, Any] = {"ring": ring}
    table["table"] = table
    written = json.dumps(redact(table))
    assert SECRET not in written


class Hostile:
    """Raises at every access."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(SECRET)

    def __repr__(self) -> str:
        raise RuntimeError(SECRET)


def test_objects_that_raise_at_every_access_become_the_names_of_their_types() -> None:
    value = {"a": Hostile(), Hostile(): "b", "e": SecretStr(SECRET), "f": b"raw"}
    assert redact(value) == {"a": "<Hostile>", "<Hostile>": "b", "e": "<SecretStr>", "f": "<bytes>"}


def test_common_values_without_a_json_type_are_written_as_text() -> None:
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    given = [UUID(int=1), moment, PurePosixPath("/a"), float("nan"), float("-inf"), 10**5_000, (1, 2), {3}]
    written = ["00000000-0000-0000-0000-000000000001", str(moment), "/a", "nan", "-inf", "<int>", [1, 2], [3]]
    assert redact(given) == written


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_any_json_value_becomes_one_that_json_can_hold(value: Any) -> None:
    json.dumps(redact(value), allow_nan=False)


@given(st.text(), st.text())
def test_a_secret_behind_its_name_never_remains(before: str, after: str) -> None:
    assert SECRET not in redact_text(f"{before} password: {SECRET}\n{after}")
    assert not re.search(SECRET, json.dumps(redact({"note": before, "access-token": SECRET + after})))
