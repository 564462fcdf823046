"""The order of start and stop around the server."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from toolweave.cli.http_server import StopRequest, listening_socket, run_until_signal, serve_app, socket_url
from toolweave.config.settings import Settings
from toolweave.errors import ConfigError


def application(log: list[str], failure: Exception | None = None) -> Starlette:
    """Make an application that notes when it starts and stops."""

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[dict[str, str]]:
        if failure is not None:
            raise failure
        log.append("started")
        yield {"opened": "yes"}
        log.append("stopped")

    async def opened(request: Request) -> JSONResponse:
        return JSONResponse(request.state.opened)

    return Starlette(routes=[Route("/opened", opened)], lifespan=lifespan)


async def test_it_says_ready_once_started_and_returns_once_stopped() -> None:
    log: list[str] = []
    stop, ready = StopRequest(), asyncio.Event()
    with listening_socket(Settings(port=0)) as sock:
        url = socket_url(sock)
        serving = asyncio.create_task(serve_app(application(log), sock, stop, ready.set))
        await asyncio.wait_for(ready.wait(), 60)
        assert log == ["started"]
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            assert (await client.get(f"{url}/opened")).json() == "yes"
        stop.request()
        await asyncio.wait_for(serving, 60)
    assert log == ["started", "stopped"]


async def test_a_stop_wanted_during_the_start_ends_it_without_ready() -> None:
    log: list[str] = []
    stop = StopRequest()
    stop.request()
    with listening_socket(Settings(port=0)) as sock:
        await asyncio.wait_for(serve_app(application(log), sock, stop, lambda: log.append("ready")), 60)
    assert log == ["started", "stopped"]


async def test_what_keeps_the_application_from_starting_is_raised_as_it_is() -> None:
    failure = ConfigError("wrong", source="x")
    with listening_socket(Settings(port=0)) as sock, pytest.raises(ConfigError) as raised:
        await serve_app(application([], failure), sock, StopRequest(), lambda: None)
    assert raised.value is failure


def test_uvicorn_speaks_through_the_log_that_was_set_up() -> None:
    before = [list(logging.getLogger(name).handlers) for name in ("uvicorn", "uvicorn.access")]
    with listening_socket(Settings(port=0)) as sock, pytest.raises(ConfigError):
        run_until_signal(application([], ConfigError("wrong", source="x")), sock, lambda: None)
    assert [logging.getLogger(name).handlers for name in ("uvicorn", "uvicorn.access")] == before
