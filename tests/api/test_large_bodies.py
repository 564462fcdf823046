"""R-03: bodies of more JSON values than are parsed at once are refused; large texts are not."""

import json
from base64 import b64encode
from typing import Any

import httpx
import pytest

from toolweave.json_values import MAX_VALUES

SERVER_ENV = {"TOOLWEAVE_MODEL": "offline"}
REFUSAL = (
    "The JSON has more than {most} values (objects, lists, texts, numbers …), the most that are read at once. "
    "Send less at a time, or send large data as one text, such as base64 or JSON in a string."
)
NOBODY = "00000000-0000-4000-8000-000000000000"
ENDPOINTS = (
    *("POST /threads", "POST /threads/search", f"POST /threads/{NOBODY}/state", f"POST /threads/{NOBODY}/runs/wait"),
    *(f"POST /threads/{NOBODY}/commands", "POST /runs/stream", "POST /runs/batch", "PUT /store/items", "POST /mcp"),
    *(f"POST /a2a/{NOBODY}", "POST /ai/mcp", "POST /chat/stream", "POST /workflow", "POST /tools"),
)

pytestmark = pytest.mark.requirement("R-03")


@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_a_body_of_too_many_values_is_413_and_says_what_to_do(http: httpx.AsyncClient, endpoint: str) -> None:
    answer = await http.request(
        *endpoint.split(),
        content=b'{"metadata":[' + b"[]," * (MAX_VALUES // 2) + b"[]]}",
        headers={"accept": "application/json, text/event-stream"},
    )
    assert (answer.status_code, answer.json()) == (413, {"detail": REFUSAL.format(most="200,000")})


@pytest.mark.parametrize("path", ["/tools/import", "/tools/import/openapi"])
async def test_imports_take_twice_as_many(http: httpx.AsyncClient, path: str) -> None:
    more, most = (b'{"tools":[' + b"[]," * (MAX_VALUES - less) + b"[]]}" for less in (0, 2))
    refused = await http.post(path, content=more)
    assert (refused.status_code, refused.json()) == (413, {"detail": REFUSAL.format(most="400,000")})
    assert (await http.post(path, content=most)).status_code == 422


async def test_a_document_in_a_text_has_no_more_values_than_one_in_a_body(http: httpx.AsyncClient) -> None:
    document = '{"openapi":"3.1.0","x":[' + "[]," * MAX_VALUES + "[]]}"
    refused = await http.post("/tools/import/openapi", json={"document": document})
    assert (refused.status_code, refused.json()) == (413, {"detail": REFUSAL.format(most="400,000")})


@pytest.mark.slow
@pytest.mark.parametrize(
    "value",
    [
        b64encode(b"\0" * 8_000_000).decode(),
        'a, "b" [c] {d: 1} \\' * MAX_VALUES,
        json.dumps([[]] * MAX_VALUES),
        list(range(MAX_VALUES - 100)),
    ],
    ids=["base64", "text with marks", "JSON as a text", "many values"],
)
async def test_large_texts_and_as_many_values_as_are_allowed_arrive(http: httpx.AsyncClient, value: Any) -> None:
    made = await http.post("/threads", json={"metadata": {"it": value}})
    assert made.status_code == 200
    found = await http.get(f"/threads/{made.json()['thread_id']}")
    assert found.json()["metadata"] == {"it": value}
