"""Read what the commands below `toolweave servers` work on: mcp.jsonc, what its entries lack, how its servers start."""

import difflib
import statistics
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from toolweave.cli.configuration import DOTENV, read_configuration
from toolweave.config.langgraph_json import LangGraphJson
from toolweave.config.logs import configure_logging
from toolweave.config.mcp import McpConfig, McpPlace, McpServerConfig, mcp_place, mcp_variables, served_mcp_config
from toolweave.config.mcp_editing import ready_made
from toolweave.config.settings import PREFIX, Settings, load_settings
from toolweave.config.variables import find_references, resolve
from toolweave.errors import ConfigError, ServerUnavailable
from toolweave.servers.connections.oauth.place import TokenPlace, token_place
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane
from toolweave.servers.connections.status import ServerState
from toolweave.servers.external.catalogue import Installation, installation_of
from toolweave.servers.external.installing import is_installed

SURVEY_PATIENCE_S = 10.0
PINGS = 5


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as a graph sees it; `input_schema` is the JSON Schema of its parameters."""

    name: str
    description: str
    input_schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What one server is and offers.

    `ready_ms` is the time from its start to its list of tools, `ping_ms` the median of some pings, if it was asked.
    """

    name: str
    state: ServerState
    reason: str | None
    tools: tuple[OfferedTool, ...] = ()
    ready_ms: int | None = None
    ping_ms: float | None = None


@contextmanager
def trial_settings(settings: Settings) -> Iterator[Settings]:
    """Give the settings to start servers with only to look at them: our todo server gets a database for the moment.

    The data folder stays the real one, where the programs of ready-made servers are, and is not made for this.
    """
    with tempfile.TemporaryDirectory(prefix="toolweave-", ignore_cleanup_errors=True) as folder:
        database = settings.todo_database_url or f"sqlite+aiosqlite:///{Path(folder, 'todo.db')}"
        yield settings.model_copy(update={"todo_database_url": database})


async def survey(
    servers: Sequence[McpServerConfig],
    tokens: TokenPlace,
    *,
    patience_s: float = SURVEY_PATIENCE_S,
    pinged: bool = False,
) -> list[Surveyed]:
    """Connect to all servers, wait a bounded time for those that are slow, and close them again."""
    started = datetime.now(UTC)
    async with open_tool_plane(servers, token_place=tokens) as plane:
        await plane.settle(timeout_s=patience_s)
        return [await _surveyed(plane, server.name, started, pinged=pinged) for server in servers]


async def _surveyed(plane: ToolPlane, name: str, started: datetime, *, pinged: bool) -> Surveyed:
    health, details = plane.health()[name], plane.details(name)
    if health["state"] != "ready" or details is None:
        return Surveyed(name, health["state"], health["last_error"])
    tools = tuple(
        OfferedTool(tool["name"], tool["description"] or "", tool["input_schema"]) for tool in details["offers"]
    )
    ready_ms = round((datetime.fromisoformat(health["since"]) - started).total_seconds() * 1000)
    return Surveyed(name, "ready", None, tools, ready_ms, await _ping_ms(plane, name) if pinged else None)


async def _ping_ms(plane: ToolPlane, name: str) -> float | None:
    """Measure some pings; None where the server does not answer them, which it need not be ready for tools for."""
    taken = []
    try:
        for _ in range(PINGS):
            began = time.perf_counter()
            await plane.ping(name)
            taken.append((time.perf_counter() - began) * 1000)
    except (ServerUnavailable, TimeoutError):
        return None
    return round(statistics.median(taken), 2)


SIGN_IN = "toolweave servers login"
ADVICE = {
    "down": 'Correct {given}its command or URL in mcp.jsonc, or disable it there with "enabled": false.',
    "connecting": "It is slow; see whether it starts by itself in a terminal.",
    "misconfigured": "Correct its entry in mcp.jsonc.",
}


@dataclass(frozen=True, slots=True)
class Needs:
    """What an entry lacks: variables without a value, and the program `to_install`.

    `given` are the variables that have the value of whoever runs it. `ready_made` is the name of the ready-made server
    whose program it starts, `program` that program.
    """

    variables: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    ready_made: str | None = None
    program: Installation | None = None
    to_install: bool = False

    @property
    def installed(self) -> bool | None:
        """Say whether its program is there; None where it is none of ours to install."""
        return None if self.program is None else not self.to_install


def needs_of(name: str, raw: Mapping[str, Any], variables: Mapping[str, str], data_dir: Path) -> Needs:
    """Look at an entry as it is written; nothing is started."""
    missing = find_references(dict(raw), variables).missing
    wanted = find_references(dict(raw), {}).missing
    given = tuple(each for each in wanted if each not in missing and not each.startswith(PREFIX))
    command = resolve(raw.get("command", ""), variables)
    for known in (name, *ready_made()):
        program = installation_of(known)
        if program is not None and command == str(data_dir.absolute() / "servers" / program.program):
            return Needs(missing, given, known, program, to_install=not is_installed(program, data_dir))
    return Needs(missing, given)


def advice(found: Surveyed, needs: Needs, variables_in: str = ".env") -> str | None:
    """Say what to do about a server that is not ready; None where the reason says so itself."""
    if needs.to_install:
        return f"Install it: toolweave servers add {needs.ready_made}"
    if needs.variables:
        return f"Set {', '.join(needs.variables)} in {variables_in} or in the environment."
    if found.reason and SIGN_IN in found.reason:
        return None  # it says by itself what to do
    given = f"the value of {', '.join(needs.given)}, " if needs.given else ""
    return ADVICE[found.state].format(given=given) if found.state in ADVICE else None


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The mcp file.",
        show_default="TOOLWEAVE_MCP_CONFIG, else mcp.jsonc in the data folder, else ours",
    ),
]
DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", metavar="FOLDER", help="The data folder, as given to `serve`.", show_default=".toolweave"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True, slots=True)
class ServersConfig:
    """The configured servers and where their tokens are kept.

    `variables` are those that entries are filled from; `variables_in` names the file where a person sets them.
    """

    mcp: McpConfig
    place: TokenPlace
    settings: Settings
    file: McpPlace
    variables: Mapping[str, str]
    variables_in: str

    @property
    def names(self) -> list[str]:
        """Name the servers that are configured, in the order of the file."""
        return [each.name for each in self.mcp.servers]

    def expect(self, name: str, known: Collection[str] | None = None) -> None:
        """Refuse a name that is none of those known, by default the configured ones.

        Raises:
            ConfigError: it is not; names the nearest one.
        """
        if name in (known := self.names if known is None else known):
            return
        nearest = difflib.get_close_matches(name, known, n=1)
        fix = f"Did you mean {nearest[0]!r}?" if nearest else f"Known: {', '.join(known) or 'none'}."
        if name in ready_made():
            fix = f"Add it: toolweave servers add {name}."
        raise ConfigError(f"there is no server {name!r}.", source=str(self.mcp.path), fix=fix)

    def needs(self) -> dict[str, Needs]:
        """Say of every entry what it lacks."""
        data_dir = self.settings.data_dir
        return {each.name: needs_of(each.name, each.raw, self.variables, data_dir) for each in self.mcp.servers}

    def find(self, name: str) -> McpServerConfig:
        """Find a server that a person signs in to.

        Raises:
            ConfigError: there is none of that name, or it is not one to sign in to.
        """
        self.expect(name)
        server = next(each for each in self.mcp.servers if each.name == name)
        source = str(self.mcp.path)
        if server.misconfigured:
            raise ConfigError(f"server {name!r} is misconfigured: {server.misconfigured}", source=source)
        if server.auth is None:
            raise ConfigError(
                f"server {name!r} has no sign-in.", source=source, fix='If it wants OAuth, write "auth": "oauth".'
            )
        if server.auth.grant == "client_credentials":
            raise ConfigError(f"server {name!r} gets its tokens with a client_secret: nobody signs in.", source=source)
        return server


def read_servers(config: Path | None, data_dir: Path | None) -> ServersConfig:
    """Read them, as `toolweave serve` would from the same folder.

    Raises:
        ConfigError: a setting, langgraph.json or mcp.jsonc is wrong.
    """
    configuration = read_configuration(data_dir=data_dir)
    settings = load_settings(mcp_config=config, data_dir=configuration.settings.data_dir, log_level="WARNING")
    configure_logging(settings)
    return ServersConfig(
        mcp=served_mcp_config(settings),
        place=token_place(settings),
        settings=settings,
        file=mcp_place(settings),
        variables=mcp_variables(settings),
        variables_in=_variables_in(configuration.served),
    )


def _variables_in(served: LangGraphJson) -> str:
    if served.env_file is not None:
        return str(served.env_file)
    return f"the env of {served.path}" if served.path.exists() else DOTENV
