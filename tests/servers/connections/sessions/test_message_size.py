"""Messages of any length are read in bounded memory; what is too large fails the request it answers."""

import json
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolweave.servers.connections.sessions.faults import (
    MAX_MESSAGE_VALUES,
    MessageSplitter,
    Oversize,
    limit_values,
    response_id,
)
from toolweave.servers.connections.sessions.http import EVENT_END
from toolweave.servers.connections.sessions.stdio import LINE_END

LIMIT = 1_000
BLANKS = [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n"]


def response(request_id: object, *, id_last: bool = False, size: int = 5_000) -> bytes:
    result = {"content": [{"type": "text", "text": "x" * size}], "id": 99}
    message = {"jsonrpc": "2.0", "id": request_id, "result": result}
    return json.dumps(dict(reversed(message.items())) if id_last else message).encode()


def event(data: bytes, blank: bytes) -> bytes:
    return b"event: message" + blank[: len(blank) // 2] + b"data: " + data + blank


def in_pieces(text: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[begin:end] for begin, end in pairwise(edges)]


@given(st.booleans(), st.lists(st.integers(0, 10**6), max_size=30))
def test_a_line_over_the_limit_is_dropped_and_the_lines_around_it_are_whole(id_last: bool, cuts: list[int]) -> None:
    splitter = MessageSplitter(LINE_END, 1, LIMIT)
    text = b"before\n" + response(7, id_last=id_last) + b"\nafter\n"
    lines = [line for piece in in_pieces(text, cuts) for line in splitter.feed(piece)]
    assert lines == [b"before\n", Oversize(request_id=7), b"after\n"]


def test_a_line_without_an_end_takes_no_more_memory_than_the_limit() -> None:
    splitter = MessageSplitter(EVENT_END, 4, 1_000_000)
    piece = b"x" * 65_536
    tracemalloc.start()
    try:
        for _ in range(500):
            assert splitter.feed(piece) == []
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "message",
    [
        b'{"jsonrpc":"2.0","method":"notifications/message","params":{"id":5}}',
        b'{"jsonrpc":"2.0","id":5,"method":"ping"}',
        b'{"result":{"id":5}}',
        b'{"id":"five","result":{}}',
        b'{"id":' + b"9" * 30 + b',"result":{}}',
        b"",
        b"[]",
    ],
)
def test_a_message_without_the_id_of_a_request_is_not_a_response(message: bytes) -> None:
    assert response_id(message, message) is None
    assert response_id(b"data: " + message, message) is None


@given(
    st.lists(st.tuples(st.sampled_from([b"{}", b'{"a": 1}', b"x" * 300]), st.sampled_from(BLANKS)), max_size=10),
    st.lists(st.integers(0, 10**6)),
)
def test_events_within_the_limit_are_unchanged_in_any_pieces(
    events: list[tuple[bytes, bytes]], cuts: list[int]
) -> None:
    wanted = [event(data, blank) for data, blank in events]
    splitter = MessageSplitter(EVENT_END, 4, LIMIT)
    found = [each for piece in in_pieces(b"".join(wanted), cuts) for each in splitter.feed(piece)]
    # Where a CR LF is cut in two, its LF comes with the next event.
    assert [each.strip() for each in found if isinstance(each, bytes)] == [each.strip() for each in wanted]
    assert splitter.flush() in (b"", b"\n")


@given(st.sampled_from(BLANKS), st.booleans(), st.integers(16, 400))
def test_an_event_over_the_limit_is_dropped_and_those_around_it_are_whole(
    blank: bytes, id_last: bool, step: int
) -> None:
    splitter = MessageSplitter(EVENT_END, 4, LIMIT)
    first, last = event(b"{}", blank), event(b'{"last": 1}', blank)
    text = first + event(response(7, id_last=id_last), blank) + last
    pieces = (text[at : at + step] for at in range(0, len(text), step))
    before, dropped, after = (found for piece in pieces for found in splitter.feed(piece))
    assert dropped == Oversize(request_id=7)
    assert isinstance(before, bytes)
    assert isinstance(after, bytes)
    assert (before.strip(), after.strip()) == (first.strip(), last.strip())


@pytest.mark.parametrize("blank", BLANKS)
async def test_an_event_of_too_many_values_is_separated_from_the_next_one(blank: bytes) -> None:
    answer = json.dumps({"jsonrpc": "2.0", "id": 7, "result": {"rows": [0] * (MAX_MESSAGE_VALUES + 50_000)}}).encode()
    found = MessageSplitter(EVENT_END, 4).feed(event(answer, blank) + event(b"{}", blank))
    assert [await limit_values(each) for each in found] == [Oversize(request_id=7), event(b"{}", blank)]
