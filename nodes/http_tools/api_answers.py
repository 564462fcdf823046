"""Turn what an API answered into what the workflow keeps of it, without credentials (W-06, W-08)."""

import asyncio
import json
from http import HTTPStatus
from typing import Any

from toolweave.nodes.http_tools.api_bodies import read_api_body
from toolweave.nodes.http_tools.echoes import Echoes
from toolweave.nodes.http_tools.specs import HTTPResponseSpec
from toolweave.outbound import OutboundResponse
from toolweave.redact import HIDDEN, names_a_secret, redact_text

LONGEST_EXCERPT = 500
# Larger ones take so long to read that others wait.
_LARGE = 64 * 1024
_USUAL_WEIGHT = 16


async def read_api_answer(answer: OutboundResponse, echoes: Echoes, milliseconds: float) -> HTTPResponseSpec:
    """Read an answer; a large one is read on a thread, and one in which much is to be looked for."""
    size = len(answer.body) + sum(len(name) + len(value) for name, value in answer.headers)
    if size * max(echoes.weight, _USUAL_WEIGHT) > _LARGE * _USUAL_WEIGHT:
        return await asyncio.to_thread(_read, answer, echoes, milliseconds)
    return _read(answer, echoes, milliseconds)


def _read(answer: OutboundResponse, echoes: Echoes, milliseconds: float) -> HTTPResponseSpec:
    body = read_api_body(answer.body, ", ".join(answer.all("content-type")), echoes)
    return HTTPResponseSpec(
        status_code=answer.status,
        headers=_headers(answer, echoes),
        body=body.value,
        body_encoding=body.encoding,
        execution_time_ms=round(milliseconds, 3),
    )


def status_text(response: HTTPResponseSpec) -> str:
    """Say in one line what an API answered: the status, and how its body begins."""
    try:
        phrase = f" {HTTPStatus(response.status_code).phrase}"
    except ValueError:
        phrase = ""
    excerpt = "" if response.body_encoding or response.body is None else _excerpt(response.body)
    return f"{response.status_code}{phrase}{f': {excerpt}' if excerpt else ''}"


def _excerpt(body: Any) -> str:
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    seen = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * LONGEST_EXCERPT]).split())
    return seen if len(seen) <= LONGEST_EXCERPT else f"{seen[:LONGEST_EXCERPT]}…"


def _headers(answer: OutboundResponse, echoes: Echoes) -> dict[str, str]:
    joined: dict[str, str] = {}
    for given, value in answer.headers:
        name, text = echoes.hide(given).lower(), _utf8(value)
        joined[name] = f"{joined[name]}, {text}" if name in joined else text
    return {name: HIDDEN if names_a_secret(name) else redact_text(text, echoes.hide) for name, text in joined.items()}


def _utf8(text: str) -> str:
    """Give a header as it was meant: on the wire it is bytes."""
    try:
        return text.encode("latin-1").decode()
    except UnicodeError:
        return text
