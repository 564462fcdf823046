"""Change the mcp file that counts; where that is the one we ship, make one's own first."""

import sys
from collections.abc import Callable

import httpx

from toolweave.cli.api_client import server_url
from toolweave.cli.servers import ServersConfig
from toolweave.config.mcp_editing import edit_file, make_file, shipped_text
from toolweave.config.settings import Settings

PROBE_S = 1.0


def change(servers: ServersConfig, edit: Callable[[str], str]) -> bool:
    """Edit the file, or a copy of ours in the data folder; say whether it differs now.

    Raises:
        ConfigError: it cannot be read, edited or written; it is as before then.
    """
    if servers.file.is_shipped:
        if edit(shipped_text()) == shipped_text():
            return False
        if make_file(servers.file.own, shipped_text()):
            sys.stderr.write(f"Made {servers.file.own}, a copy of the file that comes with Toolweave.\n")
    return edit_file(servers.file.own, edit)


def restart_hint(settings: Settings) -> str | None:
    """Say that a running server has to be restarted, if one is where the other commands look for it.

    Nothing of it reads the file again: a reconnect has a server's old entry.
    """
    url = server_url(None, settings)
    try:
        health = httpx.get(f"{url}/health", timeout=PROBE_S, trust_env=False).json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return None
    if not isinstance(health, dict) or "servers" not in health:
        return None
    return (
        f"A server is running at {url} and goes on with the entries it has read: restart it. "
        "(`toolweave dev` does so by itself; a reconnect is not enough.)"
    )
