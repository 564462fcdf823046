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


def test_common_python_types_become_plain_json() -> None:
    value = {
        "set": {1},
        "deque": deque([1]),
        "tuple": (1, 2),
        "pair": Pair(1, 2),
        "point": Point(x=1),
        "when": datetime(2026, 11, 21, 20, 33, 17, 102871, tzinfo=UTC),
        "span": timedelta(seconds=1.5),
        "money": [Decimal("1.10"), Decimal(2), Decimal("NaN")],
        "path": PurePosixPath("a/b"),
        "bytes": b"a\xff",
        "address": ip_address("127.0.0.1"),
        "pattern": re.compile("a.b"),
        "zone": ZoneInfo("Europe/Berlin"),
        "send": Send("node", {"x": 1}),
        "nan": float("nan"),
        "exception": ValueError("kaboom"),
        "interrupts": (Interrupt(value={"q": 1}, id="i1"),),
        "unknown": 1 + 2j,
        "without a repr": Unwilling(),
        1: "number key",
    }
    assert loads(dumps(value)) == {
        "set": [1],
        "deque": [1],
        "tuple": [1, 2],
        "pair": {"left": 1, "right": 2},
        "point": {"x": 1},
        "when": "2026-11-21T20:33:17.102871+00:00",
        "span": 1.5,
        "money": [1.1, 2, None],
        "path": "a/b",
        "bytes": "Yf8=",
        "address": "127.0.0.1",
        "pattern": "a.b",
        "zone": "Europe/Berlin",
        "send": {"node": "node", "args": {"x": 1}},
        "nan": None,
        "exception": {"error": "ValueError", "message": "kaboom"},
        "interrupts": [{"value": {"q": 1}, "id": "i1", "response_schema": None}],
        "unknown": "(1+2j)",
        "without a repr": "<Unwilling>",
        "1": "number key",
    }


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
