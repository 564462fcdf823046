"""Show the state of MCP servers, and sign in to them: `toolweave servers list`, `check`, `tools`, `login`, `logout`."""

import asyncio
import sys
import webbrowser
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, NoReturn

import typer
from rich.console import Console

from toolweave.cli.servers.probe import (
    STATE_COLOURS,
    AsJson,
    ConfigFile,
    DataFolder,
    ProbeResult,
    ServersConfig,
    print_warnings,
    probe,
    read_servers,
    show_state,
)
from toolweave.cli.terminal import compact_json, sanitize, shorten, show_table, stdout_console, styled
from toolweave.config.logs import configure_logging
from toolweave.config.mcp import SHIPPED_MCP_CONFIG, McpServerConfig, load_mcp_config, mcp_variables
from toolweave.config.mcp_editing import ready_made_servers
from toolweave.errors import ConfigError, SignInFailed, TokenStoreError
from toolweave.servers.connections.oauth import token_location
from toolweave.servers.connections.oauth.exchange import AuthorizationFault
from toolweave.servers.connections.oauth.login import LOGIN_TIMEOUT_S, sign_in, sign_out
from toolweave.servers.connections.oauth.vault import GrantKey, open_vault
from toolweave.servers.connections.redaction import Redaction
from toolweave.servers.connections.status import server_target

SignIn = Literal["none", "by secret", "signed in", "needed", "unreadable"]


@dataclass(frozen=True, slots=True)
class ServerListing:
    """One server as it is configured; `target` is its program or host, without secrets.

    `configured` is False for a ready-made server that is not in the file. `missing` are variables without a value.
    `installed` is None if Toolweave does not install its program. `about` is the comment above a ready-made server.
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
    about: str = ""


def list_servers(config: ConfigFile = None, data_dir: DataFolder = None, as_json: AsJson = False) -> None:
    """List the configured servers, what they lack and whether you are signed in; no server is started or contacted.

    Ready-made servers that can be added follow.
    """
    servers = read_servers(config, data_dir)
    print_warnings(servers)
    show_listings(server_listings(servers), as_json=as_json)


def server_listings(servers: ServersConfig) -> list[ServerListing]:
    """Return the configured servers, and the ready-made ones that are not among them."""
    shipped = load_mcp_config(SHIPPED_MCP_CONFIG, mcp_variables(servers.settings), settings=servers.settings).servers
    addable = [_listing(each, servers, configured=False) for each in shipped if each.name not in servers.names]
    return [_listing(each, servers) for each in servers.mcp.servers] + addable


def show_listings(listed: Sequence[ServerListing], *, as_json: bool) -> None:
    """Print a table of the servers, or all as JSON."""
    if as_json:
        print(compact_json([asdict(each) for each in listed]))
        return
    rows = []
    for each in listed:
        word = "misconfigured" if each.misconfigured else "enabled" if each.enabled else "disabled"
        state = styled(word if each.configured else "can be added", STATE_COLOURS.get(word, ""))
        about, notes = each.about or each.target, "; ".join(_listing_notes(each))
        about = f"{about} ({notes})" if notes else about
        rows.append([styled(each.name, "bold"), state, styled(each.transport), styled(about)])
    show_table(stdout_console(), rows)
    if not all(each.configured for each in listed):
        print("Add one: toolweave servers add NAME")


def _listing_notes(each: ServerListing) -> Iterator[str]:
    if each.missing and not (each.misconfigured and each.enabled):
        yield f"needs {', '.join(each.missing)}"
    if each.installed is False:
        yield f"not installed: toolweave servers add {each.name}" if each.enabled else "not installed"
    if each.misconfigured:
        yield each.misconfigured
    if each.sign_in == "needed":
        yield f"needs a sign-in: toolweave servers login {each.name}"
    elif each.sign_in != "none":
        yield each.sign_in


def _listing(server: McpServerConfig, servers: ServersConfig, *, configured: bool = True) -> ServerListing:
    needs, known = servers.needs(server.name, server.raw), ready_made_servers().get(server.name)
    is_ready_made = known and {**known.raw, "enabled": None} == {**server.raw, "enabled": None}
    return ServerListing(
        name=server.name,
        transport=server.transport,
        enabled=server.enabled and configured,
        target=server_target(server, Redaction(server)),
        sign_in=_sign_in_state(server, servers),
        misconfigured=server.misconfigured,
        configured=configured,
        missing=needs.missing,
        installed=needs.installed,
        about=known.description if known and is_ready_made else "",
    )


def _sign_in_state(server: McpServerConfig, servers: ServersConfig) -> SignIn:
    if server.auth is None or server.url is None:
        return "none"
    if server.auth.grant == "client_credentials":
        return "by secret"
    try:
        tokens = open_vault(token_location(servers.settings)).read(GrantKey(server.name, server.url))
    except TokenStoreError as error:
        sys.stderr.write(f"{server.name}: {error}\n")
        return "unreadable"
    return "needed" if tokens is None else "signed in"


def tool_signature(name: str, schema: dict[str, Any]) -> str:
    """Format a tool as name(parameter: type, optional?: type); only a single type name is shown."""
    properties, required = schema.get("properties"), schema.get("required")
    written = []
    for key, each in properties.items() if isinstance(properties, dict) else ():
        kind = each.get("type") if isinstance(each, dict) else None
        optional = "" if isinstance(required, list) and key in required else "?"
        written.append(f"{key}{optional}: {kind}" if isinstance(kind, str) else f"{key}{optional}")
    return f"{name}({', '.join(written)})"


CHECK_TIMEOUT_S = 30.0
Names = Annotated[list[str] | None, typer.Argument(help="Servers of mcp.jsonc.", show_default="all that are enabled")]


def check(names: Names = None, config: ConfigFile = None, data_dir: DataFolder = None, as_json: AsJson = False) -> None:
    """Start the servers, print how long that takes, list their tools, and stop them again.

    A disabled server is started if it is named. The exit code is 1 if one does not start; the fix is printed.
    """
    _print_checks(read_servers(config, data_dir), names or [], as_json=as_json, signatures=False)


def tools(
    name: Annotated[str | None, typer.Argument(help="A server.", show_default="all that are enabled")] = None,
    config: ConfigFile = None,
    data_dir: DataFolder = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with the schemas of the parameters.")] = False,
) -> None:
    """Start the servers and list their tools with their parameters; the exit code is that of `servers check`.

    The todo server gets a temporary database. Of a running server, GET /servers and /tools in `chat` list them.
    """
    _print_checks(read_servers(config, data_dir), [name] if name else [], as_json=as_json, signatures=True)


def _print_checks(servers: ServersConfig, names: Sequence[str], *, as_json: bool, signatures: bool) -> NoReturn:
    found = run_checks(servers, names)
    if as_json:
        print(compact_json([check_json(each, servers) for each in found]))
    elif not found:
        print("No server is enabled.")
    else:
        for each in found:
            show_check(stdout_console(), each, servers, signatures=signatures)
    raise typer.Exit(1 if any(each.state != "ready" for each in found) else 0)


def run_checks(servers: ServersConfig, names: Sequence[str]) -> list[ProbeResult]:
    """Start the servers of these names, or all that are enabled, with the timeout of a check.

    Raises:
        ConfigError: there is no server of one of the names.
    """
    for name in names:
        servers.require_known(name)
    print_warnings(servers)
    # Failures are in the results; the log would repeat them.
    configure_logging(servers.settings.model_copy(update={"log_level": "ERROR"}))
    found = probe(servers, names, timeout_s=CHECK_TIMEOUT_S)
    return [each for each in found if names or each.state != "disabled"]


def check_json(result: ProbeResult, servers: ServersConfig) -> dict[str, Any]:
    """Return a result as JSON, with what the server lacks and the fix."""
    needs = servers.needs(result.name)
    fix = None if result.state == "ready" else servers.advice(result)
    return {**asdict(result), "missing": needs.missing, "installed": needs.installed is not False, "fix": fix}


def show_check(console: Console, result: ProbeResult, servers: ServersConfig, *, signatures: bool = False) -> None:
    """Print a server's state, its tools with their parameters or by name, and the fix if it is not ready."""
    if result.state == "ready":
        show_state(console, result.name, result.state, f"{len(result.tools)} tools in {result.ready_ms} ms")
    else:
        show_state(console, result.name, result.state, result.reason or "no answer yet")
        if fix := servers.advice(result):
            console.print(styled(f"  → {fix}"))
    if result.tools and not signatures:
        console.print(styled(f"  {', '.join(tool['name'] for tool in result.tools)}"))
    for tool in result.tools if signatures else ():
        console.print(styled(f"  {tool_signature(tool['name'], tool['input_schema'])}", "bold"))
        if tool["description"]:
            console.print(styled(f"      {shorten(tool['description'], 160)}"))


Name = Annotated[str, typer.Argument(help="The server's name in mcp.jsonc.")]


def login(
    name: Name,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the URL to open.")] = False,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for the browser.")] = LOGIN_TIMEOUT_S,
    config: ConfigFile = None,
    data_dir: DataFolder = None,
) -> None:
    """Sign in to a server in the browser; its tokens are stored for `serve`, which reads them by itself."""
    servers = read_servers(config, data_dir)
    server = _sign_in_server(servers, name)

    def show(url: str) -> None:
        sys.stdout.write(f"Sign in to {name} in your browser: {sanitize(url)}\n")
        sys.stdout.flush()
        if not no_browser:
            webbrowser.open(url)

    try:
        asyncio.run(sign_in(server, token_location(servers.settings), show, timeout_s=timeout))
    except AuthorizationFault as fault:
        raise SignInFailed(f"{name}: {Redaction(server).sanitize(str(fault))}.") from fault
    print(f"Signed in to {name}.")


def logout(name: Name, config: ConfigFile = None, data_dir: DataFolder = None) -> None:
    """Delete a server's tokens and the client we registered there; a running `serve` uses them until they expire.

    POST /servers/NAME/reconnect makes it stop at once. Tokens in files can also be deleted when the server is no longer
    in mcp.jsonc; a keyring finds them by the server's URL only.
    """
    servers = read_servers(config, data_dir)
    if name in servers.names:
        was_signed_in = asyncio.run(sign_out(_sign_in_server(servers, name), token_location(servers.settings)))
    elif not (was_signed_in := open_vault(token_location(servers.settings)).delete(GrantKey(name, url=""))):
        servers.require_known(name)
    print(f"Signed out of {name}." if was_signed_in else f"You were not signed in to {name}.")


def _sign_in_server(servers: ServersConfig, name: str) -> McpServerConfig:
    """Return a server that users sign in to.

    Raises:
        ConfigError: there is none of that name, or nobody signs in to it.
    """
    servers.require_known(name)
    server, source = servers.server(name), str(servers.mcp.path)
    if server.misconfigured:
        raise ConfigError(f"server {name!r} is misconfigured: {server.misconfigured}", source=source)
    if server.auth is None:
        fix = 'If it requires OAuth, write "auth": "oauth".'
        raise ConfigError(f"server {name!r} has no sign-in.", source=source, fix=fix)
    if server.auth.grant == "client_credentials":
        raise ConfigError(f"server {name!r} gets its tokens with a client_secret; no sign-in is needed.", source=source)
    return server
