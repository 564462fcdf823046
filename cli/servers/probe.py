"""Read mcp.jsonc for the `toolweave servers` commands, find what its entries lack, and start its servers briefly."""

import asyncio
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from toolweave.cli.api_client import did_you_mean
from toolweave.cli.configuration import DOTENV, read_configuration
from toolweave.cli.terminal import styled
from toolweave.config.langgraph_json import LangGraphJson
from toolweave.config.logs import configure_logging
from toolweave.config.mcp import McpConfig, McpServerConfig, mcp_variables, served_mcp_config
from toolweave.config.mcp_editing import ready_made_servers
from toolweave.config.settings import PREFIX, Settings, load_settings
from toolweave.config.variables import fill_references, find_unresolved
from toolweave.errors import ConfigError
from toolweave.servers.connections.oauth import TokenLocation, token_location
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane
from toolweave.servers.connections.status import ServerState, fault_hint
from toolweave.servers.external_servers import Installation, installation_of, is_installed

PROBE_TIMEOUT_S = 10.0
SIGN_IN_COMMAND = "toolweave servers login"
ADVICE = {
    "down": 'Correct {provided}its command or URL in {path}, or disable it there with "enabled": false.',
    "connecting": "It is slow; check in a terminal whether it starts.",
    "misconfigured": "Correct its entry in {path}.",
}
STATE_COLOURS = {"ready": "green", "disabled": "dim", "connecting": "yellow", "misconfigured": "red", "down": "red"}

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The mcp file.",
        show_default="TOOLWEAVE_MCP_CONFIG, else mcp.jsonc in the data folder, else Toolweave's",
    ),
]
DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", metavar="FOLDER", help="The data folder, as given to `serve`.", show_default=".toolweave"
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The state and the tools of one server.

    `tools` have the name, description and input_schema that a graph receives. `ready_ms` is the time from the server's
    start to its list of tools.
    """

    name: str
    state: ServerState
    reason: str | None
    tools: tuple[dict[str, Any], ...] = ()
    ready_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Needs:
    """What an entry needs before its server can be started: variables and a program.

    `missing` are variables without a value, `provided` those that the environment sets. `ready_made` is the name of the
    ready-made server whose program the entry starts, `program` that program. `installed` is None if Toolweave does not
    install the program.
    """

    missing: tuple[str, ...] = ()
    provided: tuple[str, ...] = ()
    ready_made: str | None = None
    program: Installation | None = None
    installed: bool | None = None


@dataclass(frozen=True, slots=True)
class ServersConfig:
    """The configured servers; `variables_source` is the file in which the user sets their variables."""

    mcp: McpConfig
    settings: Settings
    variables_source: str = DOTENV

    @property
    def names(self) -> list[str]:
        """Return the names of the configured servers, in the order of the file."""
        return [each.name for each in self.mcp.servers]

    def require_known(self, name: str, known: Collection[str] | None = None) -> None:
        """Require that a name is one of the known ones, by default those of the configured servers.

        Raises:
            ConfigError: it is not; the fix names the nearest one.
        """
        if name in (known := self.names if known is None else known):
            return
        fix = did_you_mean(name, known)
        if name in ready_made_servers():
            fix = f"Add it: toolweave servers add {name}."
        raise ConfigError(f"there is no server {name!r}.", source=str(self.mcp.path), fix=fix)

    def server(self, name: str) -> McpServerConfig:
        """Return a configured server."""
        return next(each for each in self.mcp.servers if each.name == name)

    def needs(self, name: str, raw: Mapping[str, Any] | None = None) -> Needs:
        """Return what an entry needs, by default the configured one of this name; nothing is started."""
        written = dict(self.server(name).raw if raw is None else raw)
        variables = mcp_variables(self.settings)
        missing = find_unresolved(written, variables).missing
        referenced = find_unresolved(written, {}).missing
        provided = tuple(each for each in referenced if each not in missing and not each.startswith(PREFIX))
        command = fill_references(written.get("command", ""), variables)
        folder = self.settings.data_dir
        for known in (name, *ready_made_servers()):
            program = installation_of(known)
            if program is not None and command == str(folder.absolute() / "servers" / program.program):
                return Needs(missing, provided, known, program, is_installed(program, folder))
        return Needs(missing, provided)

    def advice(self, result: ProbeResult) -> str | None:
        """Return what to do about a server that is not ready; None if its reason names the fix already."""
        needs = self.needs(result.name)
        if needs.installed is False:
            return f"Install it: toolweave servers add {needs.ready_made}"
        if needs.missing:
            return f"Set {', '.join(needs.missing)} in {self.variables_source} or in the environment."
        if result.reason and SIGN_IN_COMMAND in result.reason:
            return None
        if not needs.provided and (hint := fault_hint(result.reason or "")):
            return f"{hint} Its entry is in {self.mcp.path}."
        provided = f"the value of {', '.join(needs.provided)}, " if needs.provided else ""
        return ADVICE[result.state].format(provided=provided, path=self.mcp.path) if result.state in ADVICE else None


def read_servers(config: Path | None, data_dir: Path | None) -> ServersConfig:
    """Read the configured servers, as `toolweave serve` would in the same folder.

    Raises:
        ConfigError: a setting, langgraph.json or mcp.jsonc is invalid.
    """
    configuration = read_configuration(data_dir=data_dir)
    settings = load_settings(mcp_config=config, data_dir=configuration.settings.data_dir, log_level="WARNING")
    configure_logging(settings)
    return ServersConfig(served_mcp_config(settings), settings, _variables_source(configuration.langgraph_json))


def _variables_source(langgraph_json: LangGraphJson) -> str:
    if langgraph_json.env_file is not None:
        return str(langgraph_json.env_file)
    return f"the env of {langgraph_json.path}" if langgraph_json.path.exists() else DOTENV


def print_warnings(servers: ServersConfig) -> None:
    """Print to stderr what is ignored in mcp.jsonc."""
    for warning in servers.mcp.warnings:
        sys.stderr.write(f"{warning}\n")


def probe(
    servers: ServersConfig, names: Collection[str] = (), *, timeout_s: float = PROBE_TIMEOUT_S
) -> list[ProbeResult]:
    """Start the servers of these names, or all that are enabled, and stop them again.

    A disabled server is started if it is named. The todo server gets a temporary database. The data folder stays the
    real one, which contains the programs of ready-made servers; it is not created for this.
    """
    settings = servers.settings
    with tempfile.TemporaryDirectory(prefix="toolweave-", ignore_cleanup_errors=True) as folder:
        database = settings.todo_database_url or f"sqlite+aiosqlite:///{Path(folder, 'todo.db')}"
        trial = settings.model_copy(update={"todo_database_url": database})
        configured = served_mcp_config(trial, enable=names).servers
        selected = [each for each in configured if not names or each.name in names]
        return asyncio.run(_probe_all(selected, token_location(settings), timeout_s=timeout_s))


async def _probe_all(
    servers: Sequence[McpServerConfig], tokens: TokenLocation, *, timeout_s: float
) -> list[ProbeResult]:
    started = datetime.now(UTC)
    async with open_tool_plane(servers, token_place=tokens) as plane:
        await plane.wait_for_servers(timeout_s=timeout_s)
        return [_probe_server(plane, server.name, started) for server in servers]


def _probe_server(plane: ToolPlane, name: str, started: datetime) -> ProbeResult:
    health, details = plane.health()[name], plane.details(name)
    if health["state"] != "ready" or details is None:
        return ProbeResult(name, health["state"], health["last_error"])
    tools = tuple(
        {"name": tool["name"], "description": tool["description"] or "", "input_schema": tool["input_schema"]}
        for tool in details["offers"]
    )
    ready_ms = round((datetime.fromisoformat(health["since"]) - started).total_seconds() * 1000)
    return ProbeResult(name, "ready", None, tools, ready_ms)


def show_state(console: Console, name: str, state: str, about: str) -> None:
    """Print a server's state on a line."""
    parts = [styled(name, "bold"), styled(state, STATE_COLOURS.get(state, "")), *([styled(about)] if about else [])]
    console.print(*parts)
