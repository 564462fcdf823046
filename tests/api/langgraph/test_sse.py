"""Frames have the wire form of the LangGraph API, byte for byte (langgraph_api.md section 6)."""

from toolweave.api.langgraph.answers import HEARTBEAT, sse_frame


def test_a_frame_has_event_then_data_with_crlf() -> None:
    assert sse_frame("values", b'{"n":1}') == b'event: values\r\ndata: {"n":1}\r\n\r\n'


def test_a_resumable_frame_ends_with_its_id() -> None:
    assert sse_frame("values|child:1", b"{}", "17-1") == b"event: values|child:1\r\ndata: {}\r\nid: 17-1\r\n\r\n"


def test_a_heartbeat_is_a_comment() -> None:
    assert HEARTBEAT == b": heartbeat\r\n\r\n"
