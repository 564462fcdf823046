"""Every value of a graph becomes valid JSON in the wire form."""

import json
import re
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from ipaddress import ip_address
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langgraph.types import Interrupt, Send
from pydantic import BaseModel, model_serializer

from toolweave.runtime.codec import SLICE_VALUES, RawJson, dumps, dumps_slices, is_large, loads


class Point(BaseModel):
    x: int


class Pair(NamedTuple):
    left: int
    right: int


@dataclass
class Odd:
    text: str


class Unwilling(BaseModel):
    @model_serializer
    def refuse(self) -> str:
        raise ValueError("no")

    def __repr__(self) -> str:
        raise ValueError("no")


def test_messages_take_the_form_of_their_model_dump() -> None:
    message = AIMessage(content="hi", id="m1", tool_calls=[{"name": "t", "args": {"a": 1}, "id": "c1"}])
    assert loads(dumps({"messages": [message]})) == {"messages": [json.loads(json.dumps(message.model_dump()))]}


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ({1}, [1]),
        (deque([1]), [1]),
        ((1, 2), [1, 2]),
        (Pair(1, 2), {"left": 1, "right": 2}),
        (Point(x=1), {"x": 1}),
        (datetime(2026, 11, 21, 20, 33, 17, 102871, tzinfo=UTC), "2026-11-21T20:33:17.102871+00:00"),
        (timedelta(seconds=1.5), 1.5),
        ([Decimal("1.10"), Decimal(2), Decimal("NaN")], [1.1, 2, None]),
        (PurePosixPath("a/b"), "a/b"),
        (b"a\xff", "Yf8="),
        (ip_address("127.0.0.1"), "127.0.0.1"),
        (re.compile("a.b"), "a.b"),
        (ZoneInfo("Europe/Berlin"), "Europe/Berlin"),
        (Send("node", {"x": 1}), {"node": "node", "args": {"x": 1}}),
        (float("nan"), None),
        (ValueError("kaboom"), {"error": "ValueError", "message": "kaboom"}),
        ((Interrupt({"q": 1}, id="i1"),), [{"value": {"q": 1}, "id": "i1", "response_schema": None}]),
        (1 + 2j, "(1+2j)"),
        (Unwilling(), "<Unwilling>"),
        ({1: "number key"}, {"1": "number key"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_common_python_types_become_plain_json(value: object, encoded: object) -> None:
    assert loads(dumps({"value": value})) == {"value": encoded}


def test_lone_surrogates_and_huge_integers_do_not_raise() -> None:
    assert loads(dumps({"\ud800key": "a\ud800b", "odd": Odd("\udfff"), "nan": float("inf")})) == {
        "?key": "a?b",
        "odd": {"text": "?"},
        "nan": None,
    }
    assert json.loads(dumps({"big": 2**80, "message": AIMessage(content="\ud800", id="m")}))["big"] == 2**80


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=4),
    max_leaves=12,
)


@given(anything)
def test_every_value_encodes_to_compact_json_on_one_line(value: Any) -> None:
    encoded = dumps(value)
    json.loads(encoded)
    assert b"\n" not in encoded
    assert b"\r" not in encoded


MANY = SLICE_VALUES + 1


@given(
    st.recursive(
        st.integers(-5, 5) | st.sampled_from(["é", "x" * 2_000_000, AIMessage("hi"), (1, 2), Decimal(2), [0] * MANY]),
        lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.integers(0, 9) | st.text(max_size=2), inner),
        max_leaves=12,
    )
)
def test_a_value_encoded_in_slices_is_the_value_encoded_at_once(value: Any) -> None:
    assert b"".join(dumps_slices(value)) == dumps(value)


@pytest.mark.requirement("R-03")
def test_the_slices_of_a_large_value_are_small() -> None:
    rows = [{"id": number, "tags": ["a"] * 10} for number in range(MANY)]
    value = {"values": {"rows": rows, "message": AIMessage("hi", additional_kwargs={"rows": rows})}, "next": []}
    slices = list(dumps_slices(value))
    assert b"".join(slices) == dumps(value)
    assert max(piece.count(b",") for piece in slices) <= 2 * SLICE_VALUES


def test_a_value_that_contains_itself_is_encoded() -> None:
    around: list[Any] = [0] * MANY
    around.append(around)
    assert is_large(around)
    assert loads(b"".join(dumps_slices(around)))[:MANY] == [0] * MANY


def test_stored_json_is_encoded_as_it_is() -> None:
    stored = RawJson('{"a": [1e3, "é"]}')
    assert dumps({"values": stored}) == '{"values":{"a": [1e3, "é"]}}'.encode()
    assert loads(dumps({"values": stored, "half": "\ud83d"})) == {"values": {"a": [1000.0, "é"]}, "half": "?"}
    assert is_large(RawJson(" " * 1024 * MANY))
