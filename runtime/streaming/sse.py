"""Frame server-sent events byte for byte as the LangGraph API does (langgraph_api.md section 6)."""

HEARTBEAT = b": heartbeat\r\n\r\n"
HEARTBEAT_SECONDS = 5.0


def frame(event: str, data: bytes, event_id: str | None = None) -> bytes:
    r"""Frame one event: `event`, `data`, then `id` when there is one, with CRLF line ends.

    `data` is compact JSON and so has no line breaks of its own.
    """
    head = b"event: " + event.encode() + b"\r\ndata: " + data + b"\r\n"
    if event_id is None:
        return head + b"\r\n"
    return head + b"id: " + event_id.encode() + b"\r\n\r\n"
