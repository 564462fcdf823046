"""The address to serve on: refused where it would be unsafe, explained where it cannot be had."""

import socket

import pytest

from toolweave.cli.http_server import listening_socket, socket_url
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


def test_whoever_accepts_the_risk_may_let_others_in_and_is_shown_an_address_that_works() -> None:
    with listening_socket(Settings(host=EVERYWHERE, port=0, allow_insecure_bind=True)) as sock:
        assert sock.getsockname()[0] == EVERYWHERE
        assert socket_url(sock).startswith("http://127.0.0.1:")


@pytest.mark.requirement("T-08")
def test_handlers_that_authenticate_let_others_in() -> None:
    with listening_socket(Settings(host=EVERYWHERE, port=0), authenticated=True) as sock:
        assert sock.getsockname()[0] == EVERYWHERE


def test_clients_may_connect_from_the_moment_it_listens() -> None:
    with listening_socket(Settings(port=0)) as sock, socket.create_connection(sock.getsockname(), timeout=60) as client:
        assert client.getpeername() == sock.getsockname()


def test_a_port_in_use_is_named_with_the_ways_out() -> None:
    with listening_socket(Settings(port=0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as refusal, listening_socket(Settings(port=port)):
            pass
    assert f"port {port} is already in use on 127.0.0.1" in str(refusal.value)
    assert "--port or TOOLWEAVE_PORT" in str(refusal.value)


def test_an_address_of_another_machine_is_explained() -> None:
    # 192.0.2.0/24 is reserved for documentation: no machine has it.
    settings = Settings(host="192.0.2.1", port=0, allow_insecure_bind=True)
    with (
        pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1:0: .*--host or TOOLWEAVE_HOST"),
        listening_socket(settings),
    ):
        pass
