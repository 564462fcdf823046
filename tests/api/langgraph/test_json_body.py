"""Bodies are JSON of any content type, bounded in size and depth; what is ignored is named."""

from collections.abc import Iterable
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from toolweave.api.langgraph.components import body_schema
from toolweave.api.langgraph.requests import BODY_LIMIT, MAX_DEPTH, read_body, read_json
from toolweave.errors import InvalidRequest


def request(chunks: Iterable[bytes], *, length: str | None = None, complete: bool = True) -> Request:
    parts = list(chunks)

    async def receive() -> Any:
        if not parts:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts) or not complete}

    headers = [(b"content-length", length.encode())] if length is not None else []
    return Request({"type": "http", "method": "POST", "path": "/", "headers": headers}, receive)


async def test_an_announced_oversize_body_is_refused_unread() -> None:
    for length in (str(BODY_LIMIT.max_bytes + 1), "9" * 5000):
        with pytest.raises(HTTPException) as raised:
            await read_json(request([], length=length))
        assert raised.value.status_code == 413


async def test_a_body_that_grows_too_large_is_refused_on_the_way() -> None:
    chunk = b" " * (BODY_LIMIT.max_bytes // 2 + 1)
    with pytest.raises(HTTPException) as raised:
        await read_json(request([chunk, chunk, b"never read"]))
    assert raised.value.status_code == 413
    assert "32 MiB" in raised.value.detail


async def test_a_body_cut_off_by_its_client_is_a_disconnect() -> None:
    with pytest.raises(ClientDisconnect):
        await read_json(request([b'{"a"'], complete=False))


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
async def test_depth_is_bounded(opening: bytes, closing: bytes) -> None:
    def nested(depth: int) -> bytes:
        return opening * depth + b"1" + closing * depth

    await read_json(request([nested(MAX_DEPTH)]))
    for depth in (MAX_DEPTH + 1, 1000, 100_000):
        with pytest.raises(InvalidRequest):
            await read_json(request([nested(depth)]))


async def test_many_brackets_side_by_side_are_not_depth() -> None:
    assert len(await read_json(request([b"[" + b"[]," * 5000 + b'"[[[["]']))) == 5001


async def test_null_counts_as_not_given_where_it_is_allowed() -> None:
    body = await read_body(request([b'{"namespace_prefix":null,"limit":3}']), body_schema("StoreSearchRequest"))
    assert body.fields == {"limit": 3}
    with pytest.raises(InvalidRequest, match="null is not of type"):
        await read_body(request([b'{"metadata":null}']), body_schema("ThreadSearchRequest"))


async def test_a_float_without_a_fraction_is_an_integer() -> None:
    body = await read_body(request([b'{"limit":3.0}']), body_schema("ThreadSearchRequest"))
    assert repr(body.fields["limit"]) == "3"


async def test_the_header_of_ignored_names_encodes_each_name() -> None:
    sent = '{"statuss":1,"limit":3,"ü\\r\\nx: y":2}'.encode()
    body = await read_body(request([sent]), body_schema("ThreadSearchRequest"))
    assert body.ignored_header() == {"x-ignored-fields": "statuss, %C3%BC%0D%0Ax%3A%20y"}
    assert body.ignored_header("ttl") == {"x-ignored-fields": "statuss, %C3%BC%0D%0Ax%3A%20y, ttl"}
