"""Check that a server could listen on the configured address."""

import httpx

from toolweave.cli.doctor import Finding, failure
from toolweave.cli.serving import listening, url_of
from toolweave.config.settings import Settings
from toolweave.errors import ConfigError

TIMEOUT_S = 2.0


def check_address(settings: Settings, *, authenticated: bool = False) -> Finding:
    """Listen there for a moment; a server of ours that already does is no failure."""
    try:
        with listening(settings, authenticated=authenticated) as sock:
            return Finding("ok", "address", f"{url_of(sock)} is free.")
    except ConfigError as error:
        url = f"http://{settings.host}:{settings.port}"
        if _serves(url):
            return Finding("warn", "address", f"a server is already running at {url}.", error.fix)
        return failure("address", error)


def _serves(url: str) -> bool:
    try:
        return bool(httpx.get(f"{url}/ok", timeout=TIMEOUT_S, trust_env=False).is_success)
    except (httpx.HTTPError, httpx.InvalidURL):
        return False
