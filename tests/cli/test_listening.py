"""The address to serve on, refused if unsafe, explained if unusable; the order of start and stop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from toolweave.cli.http_server import StopRequest, listening_socket, serve_app, socket_url
from toolweave.config.settings import Settings
from toolweave.errors import ConfigError

EVERYWHERE = "0.0.0.0"  # noqa: S104 - port 0, for a moment


@pytest.mark.requirement("T-08")
@pytest.mark.parametrize("host", [EVERYWHERE, "::", "192.168.1.10", "example.com", "127.0.0.1.example.com"])
def test_a_host_that_others_may_reach_is_refused_before_anything_listens(host: str) -> None:
    with pytest.raises(ConfigError) as refusal, listening_socket(Settings(host=host, port=0)):
        pass
    assert host in str(refusal.value)
    assert "--allow-insecure-bind" in str(refusal.value)
    assert "TOOLWEAVE_ALLOW_INSECURE_BIND" in str(refusal.value)


@pytest.mark.requirement("T-08")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_loopback_is_the_default_and_needs_no_permission(host: str) -> None:
    with listening_socket(Settings(host=host, port=0)) as sock:
        assert sock.getsockname()[0] == "127.0.0.1"
        assert socket_url(sock) == f"http://127.0.0.1:{sock.getsockname()[1]}"
    assert Settings().host == "127.0.0.1"


@pytest.mark.requirement("T-08")
@pytest.mark.parametrize(("allowed", "authenticated"), [(True, False), (False, True)])
def test_other_hosts_may_connect_if_the_operator_allows_it_or_handlers_authenticate(
    allowed: bool, authenticated: bool
) -> None:
    settings = Settings(host=EVERYWHERE, port=0, allow_insecure_bind=allowed)
    with listening_socket(settings, authenticated=authenticated) as sock:
        assert sock.getsockname()[0] == EVERYWHERE
        assert socket_url(sock).startswith("http://127.0.0.1:")


def test_an_address_of_another_machine_is_explained() -> None:
    # 192.0.2.0/24 is reserved for documentation: no machine has it.
    settings = Settings(host="192.0.2.1", port=0, allow_insecure_bind=True)
    with (
        pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1:0: .*--host or TOOLWEAVE_HOST"),
        listening_socket(settings),
    ):
        pass


def application(events: list[str]) -> Starlette:
    """Make an application that notes its start and stop, and returns a value of the lifespan's state."""

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[dict[str, str]]:
        events.append("started")
        yield {"opened": "yes"}
        events.append("stopped")

    async def opened(request: Request) -> JSONResponse:
        return JSONResponse(request.state.opened)

    return Starlette(routes=[Route("/opened", opened)], lifespan=lifespan)


async def test_requests_have_the_state_of_the_lifespan() -> None:
    stop, ready = StopRequest(), asyncio.Event()
    with listening_socket(Settings(port=0)) as sock:
        serving = asyncio.create_task(serve_app(application([]), sock, stop, ready.set))
        await asyncio.wait_for(ready.wait(), 60)
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            assert (await client.get(f"{socket_url(sock)}/opened")).json() == "yes"
        stop.request()
        await asyncio.wait_for(serving, 60)


async def test_a_stop_requested_during_the_start_ends_the_server_without_the_ready_line() -> None:
    events: list[str] = []
    stop = StopRequest()
    stop.request()
    with listening_socket(Settings(port=0)) as sock:
        await asyncio.wait_for(serve_app(application(events), sock, stop, lambda: events.append("ready")), 60)
    assert events == ["started", "stopped"]
