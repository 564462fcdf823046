"""List the configured MCP servers: `toolweave servers list`."""

import sys
from dataclasses import asdict, dataclass
from typing import Annotated, Literal
from urllib.parse import urlsplit, urlunsplit

import typer

from toolweave.cli.servers_config import ConfigFile, DataFolder, ServersConfig, read_servers
from toolweave.cli.terminal import compact, stdout_console, styled
from toolweave.config.mcp import McpServerConfig
from toolweave.errors import TokenStoreError
from toolweave.servers.connections.oauth.opening import open_vault
from toolweave.servers.connections.oauth.vault import GrantKey
from toolweave.servers.connections.redaction import Redaction

SignIn = Literal["none", "by secret", "signed in", "needed", "unreadable"]


@dataclass(frozen=True, slots=True)
class Listed:
    """One server as it is configured; `target` holds no secret: a command's name or a URL without its query."""

    name: str
    transport: str
    enabled: bool
    target: str
    sign_in: SignIn
    misconfigured: str | None = None


def list_servers(
    config: ConfigFile = None,
    data_dir: DataFolder = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the configured servers and whether you are signed in to them; nothing is started or asked."""
    servers = read_servers(config, data_dir)
    for warning in servers.mcp.warnings:
        sys.stderr.write(f"{warning}\n")
    listed = [_listed(each, servers) for each in servers.mcp.servers]
    if as_json:
        print(compact([asdict(each) for each in listed]))
        return
    console = stdout_console()
    for each in listed:
        sign_in = {"none": "", "needed": f"needs a sign-in: toolweave servers login {each.name}"}.get(
            each.sign_in, each.sign_in
        )
        remarks = [
            "" if each.enabled else "disabled",
            each.misconfigured and f"misconfigured: {each.misconfigured}",
            sign_in,
        ]
        about = ", ".join(remark for remark in remarks if remark)
        parts = [styled(each.name, "bold"), styled(each.transport), styled(each.target)]
        console.print(*parts, *([styled(about, "dim")] if about else []))


def _listed(server: McpServerConfig, servers: ServersConfig) -> Listed:
    return Listed(
        name=server.name,
        transport=server.transport,
        enabled=server.enabled,
        target=_target(server),
        sign_in=_sign_in(server, servers),
        misconfigured=server.misconfigured,
    )


def _target(server: McpServerConfig) -> str:
    """Name what is started or reached, without what is secret or was filled in for a variable."""
    target = server.builtin or server.command or ""
    if server.url is not None:
        parts = urlsplit(server.url)
        target = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    return Redaction(server).clean(target)


def _sign_in(server: McpServerConfig, servers: ServersConfig) -> SignIn:
    if server.auth is None or server.url is None:
        return "none"
    if server.auth.grant == "client_credentials":
        return "by secret"
    try:
        kept = open_vault(servers.place).read(GrantKey(server.name, server.url))
    except TokenStoreError as error:
        sys.stderr.write(f"{server.name}: {error}\n")
        return "unreadable"
    return "needed" if kept is None else "signed in"
