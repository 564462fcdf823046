"""A message shown chunk by chunk is, after each, the whole of what has come, however it is put together (6.1)."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessageChunk, message_chunk_to_message

from toolweave.runtime.codec import dumps, loads
from toolweave.runtime.runs.streams import MessageParts

ID = "lc_run--1"
TEXTS = st.text(max_size=12) | st.sampled_from(['"', "\\", "\n", "\ud83d", "</s>", "é"])
CALL: Any = {"name": "add", "args": '{"a"', "id": "c1", "index": 0, "type": "tool_call_chunk"}
USAGE: Any = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
OTHERS = st.sampled_from(
    [
        {"chunk_position": "last"},
        {"usage_metadata": USAGE},
        {"tool_call_chunks": [CALL]},
        {"tool_call_chunks": [{**CALL, "name": None, "id": None, "args": ': ["x\\u00'}]},
        {"tool_call_chunks": [{**CALL, "name": None, "id": None, "args": 'e9"]}'}]},
        {"response_metadata": {"model": "m"}},
        {"additional_kwargs": {"refusal": "no"}},
        {"content": [{"type": "text", "text": "block", "index": 0}]},
    ]
)


@st.composite
def chunks(draw: st.DrawFn) -> list[AIMessageChunk]:
    fields = draw(st.lists(st.builds(lambda text: {"content": text}, TEXTS) | OTHERS, min_size=1, max_size=12))
    return [AIMessageChunk(**{"content": "", "id": ID, **field}) for field in fields]


@given(chunks())
def test_each_partial_is_the_sum_of_the_chunks_so_far(pieces: list[AIMessageChunk]) -> None:
    given_so_far: Any = None
    stream = MessageParts()
    for number, piece in enumerate(pieces):
        given_so_far = piece if given_so_far is None else given_so_far + piece
        *announced, part = stream.parts((piece, {"node": "say"}), "|child:1")
        assert [(name.event, name.payload) for name in announced] == (
            [("messages/metadata|child:1", {ID: {"metadata": {"node": "say"}}})] if number == 0 else []
        )
        assert part.event == "messages/partial|child:1"
        assert loads(dumps(part.payload)) == loads(dumps([message_chunk_to_message(given_so_far)]))


def test_messages_that_grow_side_by_side_do_not_mix() -> None:
    stream = MessageParts()
    shown: dict[str, str] = {}
    for text in ("one ", "two ", "three"):
        for name in ("a", "b"):
            part = stream.parts((AIMessageChunk(content=f"{name}:{text}", id=name), {}), "")[-1]
            (message,) = loads(dumps(part.payload))
            shown[message["id"]] = message["content"]
    assert shown == {"a": "a:one a:two a:three", "b": "b:one b:two b:three"}
