"""Take an MCP server out of mcp.jsonc: `toolweave servers remove`."""

import asyncio
import sys
from typing import Annotated

import typer

from toolweave.cli.servers_config import AsJson, ConfigFile, DataFolder, ServersConfig, read_servers
from toolweave.cli.servers_editing import change, restart_hint
from toolweave.cli.terminal import compact
from toolweave.config.mcp import McpServerConfig, served_mcp_config
from toolweave.config.mcp_editing import names_in, switched, without_entry
from toolweave.config.mcp_place import mcp_place
from toolweave.config.ready_made import ready_made
from toolweave.errors import TokenStoreError
from toolweave.servers.connections.oauth.login import sign_out
from toolweave.servers.connections.oauth.opening import open_vault
from toolweave.servers.connections.oauth.vault import GrantKey


def remove(
    name: Annotated[str, typer.Argument(help="The server's name in mcp.jsonc.")],
    keep_entry: Annotated[bool, typer.Option("--keep-entry", help="Only disable it.")] = False,
    config: ConfigFile = None,
    data_dir: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Take a server's entry out of mcp.jsonc and forget its tokens; all else in the file stays as it is.

    The program of a ready-made server stays installed, and what it has stored stays where it is.
    """
    servers = read_servers(config, data_dir)
    servers.expect(name)
    # As it would be if it were enabled: the tokens are kept for its URL with the variables filled in.
    server = next(each for each in served_mcp_config(servers.settings, tried=[name]).servers if each.name == name)
    known = ready_made().get(name)

    def edit(text: str) -> str:
        if name not in names_in(text):
            return text
        if keep_entry:
            return switched(text, name, on=False)
        return without_entry(text, name, above=known.text.above if known else "")

    changed = change(servers, edit)
    tokens = _tokens(servers, server, keep=keep_entry)
    hint = restart_hint(servers.settings) if changed else None
    file = str(mcp_place(servers.settings).path)
    if as_json:
        print(compact({"name": name, "file": file, "changed": changed, "tokens": tokens, "restart": hint}))
        return
    done = f"{name} is disabled in {file}" if keep_entry else f"{name} is removed from {file}"
    print(f"{done}{'' if changed else ' already'}.")
    if tokens == "kept":
        print(f"Its tokens are kept; they are deleted by: toolweave servers logout {name}")
    elif tokens == "deleted":
        print("Signed out of it.")
    if hint:
        print(hint)


def _tokens(servers: ServersConfig, server: McpServerConfig, *, keep: bool) -> str | None:
    """Forget a server's tokens, or say that they are kept; None where there are none."""
    if server.auth is None or server.url is None:
        return None
    try:
        if open_vault(servers.place).read(GrantKey(server.name, server.url)) is None:
            return None
        if keep:
            return "kept"
        asyncio.run(sign_out(server, servers.place))
    except TokenStoreError as error:
        sys.stderr.write(f"The tokens of {server.name} may still be there: {error}\n")
        return "unknown"
    return "deleted"
