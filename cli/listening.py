"""Bind the address to serve on before anything else is opened, and refuse what would be unsafe (T-08)."""

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from toolweave.config.settings import Settings
from toolweave.errors import ConfigError
from toolweave.origins import is_loopback

BACKLOG = 2048
WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - shown, not bound


@contextmanager
def listening(settings: Settings, *, authenticated: bool = False) -> Iterator[socket.socket]:
    """Listen on the settings' host and port (0 takes a free one); clients may connect and wait from here on.

    `authenticated` says that langgraph.json names handlers which know who may come in.

    Raises:
        ConfigError: others could reach the address without authentication, or it cannot be had; says what to do.
    """
    if not is_loopback(settings.host) and not (authenticated or settings.allow_insecure_bind):
        raise ConfigError(
            f"serving on {settings.host} lets other machines run these graphs, and there is no authentication.",
            fix="Use --host 127.0.0.1, name auth handlers in langgraph.json, or accept the risk with "
            "--allow-insecure-bind (TOOLWEAVE_ALLOW_INSECURE_BIND=true).",
        )
    try:
        sock = _bound(settings.host, settings.port)
    except OSError as error:
        raise _refusal(error, settings) from error
    with sock:
        yield sock


def url_of(sock: socket.socket) -> str:
    """Give the base URL under which this machine reaches the socket."""
    host, port = sock.getsockname()[:2]
    shown = WILDCARDS.get(host) or (f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"


def _bound(host: str, port: int) -> socket.socket:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # Clients try 127.0.0.1 when they are told localhost.
    family, _, _, _, address = min(found, key=lambda info: info[0] != socket.AF_INET)
    return socket.create_server(address, family=family, backlog=BACKLOG)


def _refusal(error: OSError, settings: Settings) -> ConfigError:
    place = f"{settings.host}:{settings.port}"
    if error.errno == errno.EADDRINUSE:
        return ConfigError(
            f"port {settings.port} is already in use on {settings.host}.",
            fix="Stop the program that uses it, or choose another port with --port or TOOLWEAVE_PORT (0 takes a free "
            "one).",
        )
    if error.errno == errno.EACCES:
        fix = "Choose a port above 1023 with --port or TOOLWEAVE_PORT."
        return ConfigError(f"this user may not listen on {place}.", fix=fix)
    fix = "Choose an address of this machine with --host or TOOLWEAVE_HOST; 127.0.0.1 always works."
    reason = (error.strerror or str(error)).rstrip(".")
    return ConfigError(f"cannot listen on {place}: {reason}.", fix=fix)
