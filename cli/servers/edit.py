"""Add MCP servers to mcp.jsonc and remove them: `toolweave servers add` and `remove` (C-09)."""

import dataclasses
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from toolweave.cli.servers.probe import AsJson, ConfigFile, DataFolder, ProbeResult, ServersConfig, read_servers
from toolweave.cli.servers.state import check_json, run_checks, server_listings, show_check, show_listings
from toolweave.cli.terminal import compact_json, stdout_console
from toolweave.config import mcp_editing
from toolweave.config.documents import ConfigDocument
from toolweave.config.mcp import find_mcp_config
from toolweave.config.mcp_entry import check_server
from toolweave.config.variables import holds_reference
from toolweave.errors import ConfigError
from toolweave.redact import is_secret_header_name, is_secret_name
from toolweave.servers.external_servers import install

RESTART_HINT = "A running server uses the change when it is restarted; `dev` restarts by itself."


def apply_edit(servers: ServersConfig, edit: Callable[[str], str]) -> bool:
    """Edit the mcp file, or a copy of the shipped one in the data folder; return whether it has changed.

    Raises:
        ConfigError: it cannot be read, edited or written; it is unchanged then.
    """
    file = find_mcp_config(servers.settings)
    if file.is_shipped:
        if edit(mcp_editing.shipped_config_text()) == mcp_editing.shipped_config_text():
            return False
        if mcp_editing.create_file(file.edit_path, mcp_editing.shipped_config_text()):
            _print_note(f"Created {file.edit_path}, a copy of the file that comes with Toolweave.")
    return mcp_editing.edit_file(file.edit_path, edit)


ERROR_SOURCE = "servers add"


def _build_entry(
    name: str,
    url: str | None,
    command: Sequence[str],
    transport: str | None,
    headers: Sequence[str],
    env: Sequence[str],
    *,
    oauth: bool,
) -> dict[str, Any] | None:
    """Build an entry from the options; return None without a URL and a command, for a ready-made server.

    Raises:
        ConfigError: the options contradict each other, or the entry would be invalid.
    """
    if not url and not command:
        if headers or env or transport or oauth:
            raise _usage_error("--header, --env, --transport and --oauth go with --url or a command.")
        return None
    if url and command:
        raise _usage_error("--url and a command exclude each other.")
    if (headers or oauth) and not url:
        raise _usage_error("--header and --oauth go with --url; a program gets its secrets by --env.")
    if env and not command:
        raise _usage_error("--env goes with a command; a remote server gets its secrets by --header.")
    program = command[0] if command else ""
    if os.sep in program and not holds_reference(program):
        # The mcp file is in another folder than the user's current one.
        program = str(Path(program).expanduser().absolute())
    values = {
        "url": url,
        "command": program,
        "transport": transport,
        "headers": dict(_parse_pair("--header", text, "=:") for text in headers),
        "args": list(command[1:]),
        "env": dict(_parse_pair("--env", text, "=") for text in env),
        "auth": "oauth" if oauth else None,
    }
    entry = {key: value for key, value in values.items() if value}
    check_server(name, entry, ConfigDocument(entry, {}, ERROR_SOURCE), ())
    return entry


def _literal_secrets(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of values that look like literal secrets; never the values."""
    for name, value in entry.get("headers", {}).items():
        if is_secret_header_name(name) and not _has_reference(value):
            yield f"the header {name}"
    for name, value in entry.get("env", {}).items():
        if is_secret_name(name) and not _has_reference(value):
            yield name
    if urlsplit(entry.get("url", "")).password:
        yield "the password in the URL"


def _has_reference(value: str) -> bool:
    return holds_reference(value) or "{user:" in value or "{configurable:" in value


def _parse_pair(option: str, text: str, separators: str) -> tuple[str, str]:
    """Split NAME=VALUE; a header may also be written as NAME: VALUE."""
    first = min((at for at in map(text.find, separators) if at > 0), default=None)
    if first is None:
        raise _usage_error(f"{option} takes NAME=VALUE.")
    return text[:first].strip(), text[first + 1 :].strip() if option == "--header" else text[first + 1 :]


def _usage_error(message: str) -> ConfigError:
    return ConfigError(message, source=ERROR_SOURCE, fix="See toolweave servers add --help.")


Name = Annotated[str | None, typer.Argument(help="A ready-made server, or the name for a new one.")]
Command = Annotated[list[str] | None, typer.Argument(metavar="[-- COMMAND ARGS...]", help="The program to start.")]
Url = Annotated[str | None, typer.Option("--url", help="The URL of a remote server.")]
Transport = Annotated[str | None, typer.Option("--transport", help="stdio, http or sse.", show_default="detected")]
Headers = Annotated[
    list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="Sent to the URL; {env:VAR} is filled in.")
]
Variables = Annotated[
    list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="For the program; {env:VAR} is filled in.")
]
OAuth = Annotated[bool, typer.Option("--oauth", help="Users sign in to it: toolweave servers login NAME.")]
Replace = Annotated[bool, typer.Option("--replace", help="Replace the server that has this name.")]
NoInstall = Annotated[bool, typer.Option("--no-install", help="Do not install the program of a ready-made server.")]
NoCheck = Annotated[bool, typer.Option("--no-check", help="Do not start it to see whether it works.")]


def add(
    name: Name = None,
    command: Command = None,
    url: Url = None,
    transport: Transport = None,
    header: Headers = None,
    env: Variables = None,
    oauth: OAuth = False,
    replace: Replace = False,
    no_install: NoInstall = False,
    no_check: NoCheck = False,
    config: ConfigFile = None,
    data_dir: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Add an MCP server to mcp.jsonc and check whether it works; without a name, list the ready-made ones.

    A ready-made server needs its name only: its program is installed into the data folder, its entry enabled. Any
    other is added with `--url URL`, or with its command after `--`. The edited file is the one of --config or
    TOOLWEAVE_MCP_CONFIG, else mcp.jsonc in the data folder, created if necessary; the rest of it stays unchanged.
    Write secrets as {env:VAR}. The exit code is 1 if the server was added and does not start.
    """
    servers = read_servers(config, data_dir)
    entry = _build_entry(name or "x", url, command or (), transport, header or (), env or (), oauth=oauth)
    if name is None:
        show_listings(
            [each for each in server_listings(servers) if each.name in mcp_editing.ready_made_servers()],
            as_json=as_json,
        )
        return
    if entry is None:
        changed = _add_ready_made(servers, name, replace=replace, no_install=no_install)
    else:
        changed = apply_edit(servers, lambda text: _add_entry(text, name, entry, replace=replace))
    servers = read_servers(config, data_dir)
    ready = report_added(servers, {name: entry or {}}, changed=changed, no_check=no_check, as_json=as_json)
    raise typer.Exit(0 if ready else 1)


def _add_entry(text: str, name: str, entry: Mapping[str, Any], *, replace: bool) -> str:
    if name in mcp_editing.entry_names(text) and not replace:
        raise ConfigError(f"a server {name!r} exists already.", fix="Choose another name, or use --replace.")
    return mcp_editing.with_entry(text, name, entry)


def _add_ready_made(servers: ServersConfig, name: str, *, replace: bool, no_install: bool) -> bool:
    """Install the program of a ready-made server and enable its entry; an existing entry is not replaced."""
    servers.require_known(name, dict.fromkeys([*servers.names, *mcp_editing.ready_made_servers()]))
    known = mcp_editing.ready_made_servers().get(name)
    if replace and known is None:
        raise ConfigError(f"{name!r} is not a ready-made server.", source=ERROR_SOURCE, fix="Use --url or a command.")
    needs = servers.needs(name, known.raw if known and (replace or name not in servers.names) else None)
    if needs.program and not needs.installed and not no_install:
        install(needs.program, servers.settings.data_dir, _print_note)

    def edit(text: str) -> str:
        if known is not None and (replace or name not in mcp_editing.entry_names(text)):
            text = mcp_editing.with_entry(text, name, known)
        return mcp_editing.with_enabled(text, name, enabled=True)

    return apply_edit(servers, edit)


def _print_note(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def report_added(
    servers: ServersConfig,
    added: Mapping[str, Mapping[str, Any]],
    *,
    no_check: bool,
    changed: bool = True,
    as_json: bool = False,
) -> bool:
    """Start the added servers that lack nothing; print what was changed, what is missing and the states.

    `added` are the new entries by name, empty for one that was only enabled. Return False if a server was started and
    is not ready.
    """
    for name, entry in added.items():
        for secret in _literal_secrets(entry):
            place = f"{name}: {secret} is a literal value in {servers.mcp.path}"
            _print_note(f"{place}: write {{env:NAME}} and set that variable.")
    lacking = {name: list(_lacks(servers, name)) for name in added}
    startable = [name for name in added if servers.server(name).enabled and not (no_check or lacking[name])]
    found = {each.name: each for each in (run_checks(servers, startable) if startable else ())}
    hint = RESTART_HINT if changed else None
    for name in added:
        check = found.get(name)
        if check and added[name]:
            check = _with_empty_prefix(servers, check)
        if as_json:
            needs = servers.needs(name)
            payload = {"name": name, "file": str(servers.mcp.path), "changed": changed, "restart": hint}
            payload |= {"missing": needs.missing, "installed": needs.installed is not False}
            print(compact_json({**payload, "check": check and check_json(check, servers)}))
            continue
        state = "enabled" if servers.server(name).enabled else "disabled"
        print("\n".join([f"{name} is {state} in {servers.mcp.path}{'' if changed else ' already'}.", *lacking[name]]))
        if check:
            show_check(stdout_console(), check, servers)
    if hint and not as_json:
        print(hint)
    return all(each.state == "ready" for each in found.values())


def _lacks(servers: ServersConfig, name: str) -> Iterator[str]:
    """Yield what the user has to do before a server can be started."""
    needs, auth = servers.needs(name), servers.server(name).auth
    if needs.missing:
        yield f"It needs {', '.join(needs.missing)}: set that in {servers.variables_source} or in the environment."
    if needs.installed is False:
        yield f"Its program is not installed yet: toolweave servers add {needs.ready_made}"
    if auth is not None and auth.grant == "authorization_code":
        yield f"Sign in to it: toolweave servers login {name}"


def _with_empty_prefix(servers: ServersConfig, result: ProbeResult) -> ProbeResult:
    """Write an empty prefix into the entry of a server whose tools begin with its name already (D-2)."""
    name, prefix = result.name, f"{result.name}_"
    own_names = [tool["name"].removeprefix(prefix) for tool in result.tools]
    is_doubled = own_names and all(_plain(own_name).startswith(_plain(prefix)) for own_name in own_names)
    if not is_doubled or "prefix" in servers.server(name).raw:
        return result
    apply_edit(servers, lambda text: mcp_editing.with_value(text, name, "prefix", ""))
    tools = tuple({**tool, "name": own_name} for tool, own_name in zip(result.tools, own_names, strict=True))
    return dataclasses.replace(result, tools=tools)


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


def remove(
    name: Annotated[str, typer.Argument(help="The server's name in mcp.jsonc.")],
    keep_entry: Annotated[bool, typer.Option("--keep-entry", help="Only disable it.")] = False,
    config: ConfigFile = None,
    data_dir: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Remove a server's entry from mcp.jsonc; the rest of the file stays unchanged.

    Only the file is changed: a server's program, its data and its tokens stay. `servers logout` deletes the tokens; run
    it before this command if they are in a keyring.
    """
    servers = read_servers(config, data_dir)
    servers.require_known(name)
    known = mcp_editing.ready_made_servers().get(name)

    def edit(text: str) -> str:
        if name not in mcp_editing.entry_names(text):
            return text
        if keep_entry:
            return mcp_editing.with_enabled(text, name, enabled=False)
        return mcp_editing.without_entry(text, name, comment=known.comment if known else "")

    changed = apply_edit(servers, edit)
    hint = RESTART_HINT if changed else None
    file = str(find_mcp_config(servers.settings).path)
    if as_json:
        print(compact_json({"name": name, "file": file, "changed": changed, "restart": hint}))
        return
    done = f"{name} is disabled in {file}" if keep_entry else f"{name} is removed from {file}"
    print(f"{done}{'' if changed else ' already'}.")
    if hint:
        print(hint)
