"""A server of ours listens on a local address only, or reports why it cannot."""

import socket

import pytest
from fastmcp import FastMCP
from fastmcp.server.auth import StaticTokenVerifier

from toolweave.errors import ConfigError
from toolweave.servers.program import serve_http


@pytest.mark.requirement("T-08")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "example.org", "", "127.0.0.1.example.org"])  # noqa: S104
async def test_an_address_that_others_could_reach_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="--host") as refusal:
        await serve_http(FastMCP("test"), transport="http", host=host, port=0)
    assert "127.0.0.1" in str(refusal.value)


async def test_with_authentication_a_host_must_be_an_address_still() -> None:
    server: FastMCP[None] = FastMCP("test", auth=StaticTokenVerifier({"a-token": {"client_id": "a"}}))
    with pytest.raises(ConfigError, match="--host"):
        await serve_http(server, transport="http", host="example.org", port=0)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_port_in_use_is_named_with_the_fix(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match="--port") as refusal:
            await serve_http(FastMCP("test"), transport="sse", host=host, port=port)
    assert f"{host}:{port}" in str(refusal.value)
    assert "another port" in str(refusal.value)


async def test_an_invalid_port_is_refused() -> None:
    with pytest.raises(ConfigError, match="--port"):
        await serve_http(FastMCP("test"), transport="http", host="127.0.0.1", port=70000)
