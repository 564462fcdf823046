"""Sign in to a remote MCP server, and out again: `toolweave servers login` and `logout`."""

import asyncio
import sys
import webbrowser
from typing import Annotated

import typer

from toolweave.cli.servers import ConfigFile, DataFolder, read_servers
from toolweave.cli.terminal import harmless
from toolweave.errors import SignInFailed
from toolweave.servers.connections.oauth.exchange import AuthorizationFault
from toolweave.servers.connections.oauth.login import PATIENCE_S, sign_in, sign_out
from toolweave.servers.connections.oauth.vault import GrantKey, open_vault
from toolweave.servers.connections.redaction import Redaction

Name = Annotated[str, typer.Argument(help="The server's name in mcp.jsonc.")]


def login(
    name: Name,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the URL to open.")] = False,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for the browser.")] = PATIENCE_S,
    config: ConfigFile = None,
    data_dir: DataFolder = None,
) -> None:
    """Sign in to a server in the browser; its tokens are kept for `serve`, which takes them up by itself."""
    servers = read_servers(config, data_dir)
    server = servers.find(name)

    def show(url: str) -> None:
        sys.stdout.write(f"Sign in to {name} in your browser: {harmless(url)}\n")
        sys.stdout.flush()
        if not no_browser:
            webbrowser.open(url)

    try:
        asyncio.run(sign_in(server, servers.place, show, patience_s=timeout))
    except AuthorizationFault as fault:
        raise SignInFailed(f"{name}: {Redaction(server).clean(str(fault))}.") from fault
    print(f"Signed in to {name}.")


def logout(name: Name, config: ConfigFile = None, data_dir: DataFolder = None) -> None:
    """Delete a server's tokens and the client we registered with it; a running `serve` stops to use them when they end.

    POST /servers/NAME/reconnect makes it stop at once. Tokens in files can also be deleted when the server is no longer
    in mcp.jsonc; a keyring finds them by the server's URL only.
    """
    servers = read_servers(config, data_dir)
    if name in servers.names:
        was_signed_in = asyncio.run(sign_out(servers.find(name), servers.place))
    elif not (was_signed_in := open_vault(servers.place).delete(GrantKey(name, url=""))):
        servers.expect(name)
    print(f"Signed out of {name}." if was_signed_in else f"You were not signed in to {name}.")
