"""Show how MCP servers are, and sign in to them: `toolweave servers list`, `check`, `tools`, `login` and `logout`."""

import asyncio
import sys
import webbrowser
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit, urlunsplit

import typer
from rich.console import Console

from toolweave.cli.servers import (
    AsJson,
    ConfigFile,
    DataFolder,
    Needs,
    ServersConfig,
    Surveyed,
    advice,
    needs_of,
    read_servers,
    survey,
    trial_settings,
)
from toolweave.cli.terminal import compact, harmless, shortened, stdout_console, styled
from toolweave.cli.tools import show_state
from toolweave.config.logs import configure_logging
from toolweave.config.mcp import McpServerConfig, served_mcp_config
from toolweave.config.mcp_editing import EntryText, ready_made
from toolweave.errors import SignInFailed, TokenStoreError
from toolweave.servers.connections.oauth.exchange import AuthorizationFault
from toolweave.servers.connections.oauth.login import PATIENCE_S, sign_in, sign_out
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


def _addable(known: EntryText, servers: ServersConfig) -> Listed:
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


def signature(name: str, schema: dict[str, Any]) -> str:
    """Write a tool as name(parameter: type, optional?: type = default)."""
    properties = schema.get("properties")
    required = schema.get("required")
    wanted = required if isinstance(required, list) else []
    parameters = [
        f"{key}{'' if key in wanted else '?'}{_type(each)}{_default(each)}"
        for key, each in (properties.items() if isinstance(properties, dict) else ())
    ]
    return f"{name}({', '.join(parameters)})"


def _type(schema: Any) -> str:
    named = _type_name(schema)
    return f": {named}" if named else ""


def _type_name(schema: Any) -> str:
    if not isinstance(schema, dict):
        return ""
    if isinstance(values := schema.get("enum"), list):
        return shortened("|".join(map(str, values)), 60)
    if isinstance(choices := schema.get("anyOf", schema.get("oneOf")), list):
        return "|".join(dict.fromkeys(filter(None, map(_type_name, choices))))
    kind = schema.get("type", "")
    named = "|".join(map(str, kind)) if isinstance(kind, list) else str(kind)
    inner = _type_name(schema.get("items")) if named == "array" else ""
    return f"{named}[{inner}]" if inner else named


def _default(schema: Any) -> str:
    has_one = isinstance(schema, dict) and schema.get("default") is not None
    return f" = {shortened(compact(schema['default']), 40)}" if has_one else ""


CHECK_PATIENCE_S = 30.0
Names = Annotated[list[str] | None, typer.Argument(help="Servers of mcp.jsonc.", show_default="all that are enabled")]


def check(names: Names = None, config: ConfigFile = None, data_dir: DataFolder = None, as_json: AsJson = False) -> None:
    """Start the servers, say how long that takes, list their tools, measure some pings, and stop them again.

    A server that is disabled is started if it is named. The exit code is 1 when one does not come up; what to do about
    it is said.
    """
    servers = read_servers(config, data_dir)
    found = tried(servers, names or [])
    needs = servers.needs()
    failed = [each for each in found if each.state != "ready"]
    if as_json:
        print(compact([checked_json(each, needs[each.name], servers) for each in found]))
    else:
        for each in found:
            show_checked(stdout_console(), each, needs[each.name], servers)
        if not found:
            print("No server is enabled.")
    raise typer.Exit(1 if failed else 0)


def tools(
    name: Annotated[str | None, typer.Argument(help="A server.", show_default="all that are enabled")] = None,
    config: ConfigFile = None,
    data_dir: DataFolder = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with the schemas of the parameters.")] = False,
) -> None:
    """Start the servers and list their tools with the parameters they take; the exit code is as that of `check`."""
    servers = read_servers(config, data_dir)
    found = tried(servers, [name] if name else [])
    needs = servers.needs()
    if as_json:
        print(compact([checked_json(each, needs[each.name], servers) for each in found]))
    else:
        for each in found:
            _show_tools(stdout_console(), each, needs[each.name], servers)
    raise typer.Exit(1 if any(each.state != "ready" for each in found) else 0)


def tried(servers: ServersConfig, names: Sequence[str]) -> list[Surveyed]:
    """Start the servers of these names, or all that are enabled.

    Raises:
        ConfigError: there is no server of such a name.
    """
    for name in names:
        servers.expect(name)
    for warning in servers.mcp.warnings:
        sys.stderr.write(f"{warning}\n")
    # What goes wrong is said in our words.
    configure_logging(servers.settings.model_copy(update={"log_level": "ERROR"}))
    with trial_settings(servers.settings) as trial:
        configured = served_mcp_config(trial, tried=names).servers
        wanted = [each for each in configured if (each.name in names if names else each.enabled)]
        return asyncio.run(survey(wanted, servers.place, patience_s=CHECK_PATIENCE_S, pinged=True))


def checked_json(found: Surveyed, needs: Needs, servers: ServersConfig) -> dict[str, Any]:
    """Write what was found as JSON."""
    to_do = None if found.state == "ready" else advice(found, needs, servers.variables_in)
    return {**asdict(found), "missing": list(needs.variables), "installed": not needs.to_install, "fix": to_do}


def show_checked(console: Console, found: Surveyed, needs: Needs, servers: ServersConfig) -> None:
    """Print how a server is, and what to do if it is not ready."""
    _show_head(console, found, needs, servers)
    if found.tools:
        console.print(styled(f"  {', '.join(tool.name for tool in found.tools)}"))


def _show_head(console: Console, found: Surveyed, needs: Needs, servers: ServersConfig) -> None:
    if found.state == "ready":
        pings = "" if found.ping_ms is None else f", a ping takes {found.ping_ms:g} ms"
        show_state(console, found.name, found.state, f"{len(found.tools)} tools in {found.ready_ms} ms{pings}")
        return
    show_state(console, found.name, found.state, found.reason or "no answer yet")
    if to_do := advice(found, needs, servers.variables_in):
        console.print(styled(f"  → {to_do}"))


def _show_tools(console: Console, found: Surveyed, needs: Needs, servers: ServersConfig) -> None:
    _show_head(console, found, needs, servers)
    for tool in found.tools:
        console.print(styled(f"  {signature(tool.name, tool.input_schema)}", "bold"))
        if tool.description:
            console.print(styled(f"      {shortened(tool.description, 160)}"))


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
