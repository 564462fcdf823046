"""Exceptions become HTTP answers by one table, always with a detail string."""

from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from toolweave import errors
from toolweave.api.errors import ERROR_STATUSES, EXCEPTION_HANDLERS, OUTERMOST_HANDLERS, status_of
from toolweave.api.langgraph_client import StreamingAsgiTransport


def client(error: Exception) -> httpx.AsyncClient:
    async def raising(_request: Request) -> Response:
        raise error

    last = Middleware(ExceptionMiddleware, handlers=OUTERMOST_HANDLERS)
    app = Starlette(routes=[Route("/", raising)], middleware=[last], exception_handlers=EXCEPTION_HANDLERS)
    return httpx.AsyncClient(transport=StreamingAsgiTransport(app), base_url="http://127.0.0.1")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.InvalidRequest("bad"), 422),
        (errors.NotFound("bad"), 404),
        (errors.Conflict("bad"), 409),
        (errors.ModelError("bad"), 502),
        (errors.ServerUnavailable("bad", server="todo"), 503),
        (errors.ToolTimeout("bad", server="todo"), 504),
        (errors.DataFolderLocked("bad"), 503),
        (errors.ConfigError("bad"), 500),
        (HTTPException(400, "bad"), 400),
    ],
)
async def test_an_error_is_answered_with_its_status_and_text(error: Exception, status: int) -> None:
    async with client(error) as http:
        answer = await http.get("/")
    assert (answer.status_code, answer.json()) == (status, {"detail": "bad"})
    assert answer.headers["content-type"] == "application/json"


async def test_an_unexpected_error_is_a_500_without_details() -> None:
    async with client(KeyError("a secret")) as http:
        answer = await http.get("/")
    assert (answer.status_code, answer.json()) == (500, {"detail": "Internal Server Error"})


def test_every_error_class_has_a_status() -> None:
    classes: list[Any] = [
        value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.ToolweaveError)
    ]
    assert {status_of(cls.__new__(cls)) for cls in classes} == set(ERROR_STATUSES.values())


async def test_an_error_after_the_start_of_the_response_ends_it() -> None:
    async def half(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise KeyError("too late")

    app = ExceptionMiddleware(half, handlers=OUTERMOST_HANDLERS)
    async with httpx.AsyncClient(transport=StreamingAsgiTransport(app), base_url="http://127.0.0.1") as http:
        with pytest.raises(httpx.RemoteProtocolError):
            await http.get("/")
