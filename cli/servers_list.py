"""List the configured MCP servers: `toolweave servers list`."""

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from toolweave.cli.servers import AsJson, ConfigFile, DataFolder, Needs, ServersConfig, needs_of, read_servers
from toolweave.cli.terminal import compact, stdout_console, styled
from toolweave.config.mcp import McpServerConfig
from toolweave.config.mcp_editing import ReadyMade, ready_made
from toolweave.errors import TokenStoreError
from toolweave.servers.connections.oauth.vault import GrantKey, open_vault
from toolweave.servers.connections.redaction import Redaction

SignIn = Literal["none", "by secret", "signed in", "needed", "unreadable"]


@dataclass(frozen=True, slots=True)
class Listed:
    """One server as it is configured; `target` holds no secret: a command's name or a URL without its query.

    `configured` is False for a ready-made one that the file has not; `missing` are variables without a value,
    `installed` says whether its program is there, None where it is none of ours to install.
    """

    name: str
    transport: str
    enabled: bool
    target: str
    sign_in: SignIn
    misconfigured: str | None = None
    configured: bool = True
    missing: tuple[str, ...] = ()
    installed: bool | None = None


def list_servers(
    config: ConfigFile = None,
    data_dir: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """List the configured servers, what they lack and whether you are signed in to them; nothing is started or asked.

    Ready-made servers that can be added follow.
    """
    servers = read_servers(config, data_dir)
    for warning in servers.mcp.warnings:
        sys.stderr.write(f"{warning}\n")
    needs = servers.needs()
    listed = [_listed(each, servers, needs[each.name]) for each in servers.mcp.servers]
    listed += [_addable(each, servers) for each in ready_made().values() if each.name not in servers.names]
    if as_json:
        print(compact([asdict(each) for each in listed]))
        return
    console = stdout_console()
    for each in listed:
        about = ", ".join(_remarks(each))
        parts = [styled(each.name, "bold"), styled(each.transport), styled(each.target)]
        console.print(*parts, *([styled(about, "dim")] if about else []))


def _remarks(each: Listed) -> Iterator[str]:
    if not each.configured:
        yield f"can be added: toolweave servers add {each.name}"
    elif not each.enabled:
        yield "disabled"
    if each.missing and not (each.misconfigured and each.enabled):
        yield f"needs {', '.join(each.missing)}"
    if each.installed is False:
        yield f"not installed: toolweave servers add {each.name}" if each.enabled else "not installed"
    if each.misconfigured:
        yield f"misconfigured: {each.misconfigured}"
    if each.sign_in == "needed":
        yield f"needs a sign-in: toolweave servers login {each.name}"
    elif each.sign_in != "none":
        yield each.sign_in


def _listed(server: McpServerConfig, servers: ServersConfig, needs: Needs) -> Listed:
    return Listed(
        name=server.name,
        transport=server.transport,
        enabled=server.enabled,
        target=_target(server),
        sign_in=_sign_in(server, servers),
        misconfigured=server.misconfigured,
        missing=needs.variables,
        installed=needs.installed,
    )


def _addable(known: ReadyMade, servers: ServersConfig) -> Listed:
    needs = needs_of(known.name, known.raw, servers.variables, servers.settings.data_dir)
    return Listed(
        name=known.name,
        transport="in_process" if "builtin" in known.raw else "stdio",
        enabled=False,
        target=known.raw.get("command", known.raw.get("builtin", "")),
        sign_in="none",
        configured=False,
        missing=needs.variables,
        installed=needs.installed,
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
