"""The exact bytes: status lines, headers and bodies as the reference server sends them (langgraph_api.md 3, 6)."""

import asyncio
import re
from pathlib import Path

import pytest

from tests.fixtures.app_server import AppServer

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00")

pytestmark = pytest.mark.databases("sqlite", "postgresql", reason="a proxy sends bytes of its own")


async def exchange(server: AppServer, request: str, body: str = "", *, end: bytes = b"") -> str:
    """Send a request by hand and give the whole answer; ids, times and dates by order of appearance.

    With `end` the connection stays open and the answer is read up to there.
    """
    closing = () if end else ("Connection: close",)
    lines = [request, f"Host: 127.0.0.1:{server.settings.port}", f"Content-Length: {len(body)}", *closing]
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.settings.port)
        writer.write(("\r\n".join(lines) + f"\r\n\r\n{body}").encode())
        answer = (await (reader.readuntil(end) if end else reader.read())).decode()
        writer.close()
        await writer.wait_closed()
    # What the middleware of the served application adds to every answer.
    answer = answer.replace("x-signed: by the application\r\n", "")
    # Another value in each answer; tests/api/test_log_ids.py has its tests.
    answer = re.sub(r"x-request-id: \w+\r\n|\r\nx-request-id: \w+(?=\r\n\r\n)", "", answer)
    seen: dict[str, str] = {}
    answer = UUID.sub(lambda found: seen.setdefault(found[0], f"<id{len(seen) + 1}>"), answer)
    return TIME.sub("<time>", re.sub(r"date: [^\r]*", "date: <date>", answer))


async def new_thread(server: AppServer) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.settings.port)
    writer.write(b"POST /threads HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
    found = UUID.search((await reader.read()).decode())
    writer.close()
    await writer.wait_closed()
    assert found is not None
    return found[0]


def lines(*parts: str) -> str:
    return "\r\n".join(parts)


def chunks(*bodies: str) -> str:
    return "".join(f"{len(body):x}\r\n{body}\r\n" for body in bodies) + "0\r\n\r\n"


JSON_HEAD = ("date: <date>", "server: uvicorn")


@pytest.mark.parametrize(
    ("request_line", "body", "status", "answer"),
    [
        ("GET /ok HTTP/1.1", "", 200, '{"ok":true,"services":{}}'),
        ("GET / HTTP/1.1", "", 200, '{"ok":true,"services":{}}'),
        ("GET /nope HTTP/1.1", "", 404, '{"detail":"Not Found"}'),
        ("POST /assistants/search HTTP/1.1", "{bad", 422, '{"detail":"Invalid JSON in request body"}'),
        ("POST /threads HTTP/1.1", "", 422, '{"detail":"Invalid JSON in request body"}'),
        ("GET /threads/zzz HTTP/1.1", "", 422, '{"detail":"Invalid thread ID: must be a UUID"}'),
    ],
)
async def test_plain_responses(app_server: AppServer, request_line: str, body: str, status: int, answer: str) -> None:
    got = await exchange(app_server, request_line, body)
    head, _, text = got.partition("\r\n\r\n")
    status_line, *headers = head.split("\r\n")
    # Reason phrases changed with RFC 9110; only the number counts.
    assert status_line.startswith(f"HTTP/1.1 {status} ")
    fixed = ("content-type: application/json", "vary: Origin", "connection: close")
    assert sorted(headers) == sorted([*JSON_HEAD, *fixed, f"content-length: {len(answer)}"])
    assert text == answer


async def test_the_response_to_a_new_thread_is_exact(app_server: AppServer) -> None:
    got = await exchange(app_server, "POST /threads HTTP/1.1", "{}")
    assert got.partition("\r\n\r\n")[2] == (
        '{"thread_id":"<id1>","created_at":"<time>","updated_at":"<time>","state_updated_at":"<time>",'
        '"metadata":{},"status":"idle","config":{},"values":null}'
    )


async def test_a_204_has_no_body(app_server: AppServer) -> None:
    thread_id = await new_thread(app_server)
    got = await exchange(app_server, f"DELETE /threads/{thread_id} HTTP/1.1")
    assert got == lines("HTTP/1.1 204 No Content", *JSON_HEAD, "vary: Origin", "connection: close", "", "")


async def test_a_wrong_method_names_the_allowed_ones(app_server: AppServer) -> None:
    got = await exchange(app_server, "GET /threads HTTP/1.1")
    assert "\r\nallow: POST\r\n" in got
    assert got.endswith('{"detail":"Method Not Allowed"}')
    thread_id = await new_thread(app_server)
    got = await exchange(app_server, f"PUT /threads/{thread_id} HTTP/1.1", "{}")
    assert "\r\nallow: DELETE, GET, HEAD, PATCH\r\n" in got


async def test_an_event_stream_is_exact(app_server: AppServer) -> None:
    thread_id = await new_thread(app_server)
    body = '{"assistant_id":"steps","input":{"n":1},"stream_mode":["values","updates"]}'
    got = await exchange(app_server, f"POST /threads/{thread_id}/runs/stream HTTP/1.1", body, end=b"\r\n0\r\n\r\n")
    head, _, text = got.partition("\r\n\r\n")
    status_line, *headers = head.split("\r\n")
    assert status_line == "HTTP/1.1 200 OK"
    assert sorted(headers) == sorted(
        [
            *JSON_HEAD,
            "location: /threads/<id1>/runs/<id2>/stream",
            "content-location: /threads/<id1>/runs/<id2>",
            "cache-control: no-store",
            "connection: keep-alive",
            "x-accel-buffering: no",
            "content-type: text/event-stream; charset=utf-8",
            "vary: Origin",
            "transfer-encoding: chunked",
        ]
    )
    frames = re.sub(r"(?:^|\r\n)[0-9a-f]+\r\n(?=event|\r\n|$)", "", text)
    assert frames.rstrip("\r\n") == lines(
        "event: metadata",
        'data: {"run_id":"<id2>","attempt":1}',
        "",
        "event: values",
        'data: {"n":1,"log":[]}',
        "",
        "event: updates",
        'data: {"add":{"n":2,"log":["add"]}}',
        "",
        "event: values",
        'data: {"n":2,"log":["add"]}',
        "",
        "event: updates",
        'data: {"double":{"n":4,"log":["double"]}}',
        "",
        "event: values",
        'data: {"n":4,"log":["add","double"]}',
    )


async def test_the_response_to_a_waiting_client_is_exact(app_server: AppServer) -> None:
    thread_id = await new_thread(app_server)
    body = '{"assistant_id":"steps","input":{"n":1}}'
    got = await exchange(app_server, f"POST /threads/{thread_id}/runs/wait HTTP/1.1", body)
    head, _, text = got.partition("\r\n\r\n")
    assert sorted(head.split("\r\n")[1:]) == sorted(
        [
            *JSON_HEAD,
            "location: /threads/<id1>/runs/<id2>/join",
            "content-location: /threads/<id1>/runs/<id2>",
            "content-type: application/json",
            "vary: Origin",
            "connection: close",
            "transfer-encoding: chunked",
        ]
    )
    assert text == chunks('{"n":4,"log":["add","double"]}')
