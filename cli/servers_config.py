"""Read what the commands below `toolweave servers` work on: the settings a server would have here, and mcp.jsonc."""

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from toolweave.cli.configuration import DOTENV, read_configuration
from toolweave.cli.servers import Needs, needs_of
from toolweave.config.langgraph_json import LangGraphJson
from toolweave.config.logs import configure_logging
from toolweave.config.mcp import McpConfig, McpPlace, McpServerConfig, mcp_place, mcp_variables, served_mcp_config
from toolweave.config.mcp_editing import ready_made
from toolweave.config.mcp_entry import read_mcp_file
from toolweave.config.settings import Settings, load_settings
from toolweave.errors import ConfigError
from toolweave.servers.connections.oauth.place import TokenPlace, token_place

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
        """Say of every entry what it lacks.

        Raises:
            ConfigError: the file has become wrong meanwhile.
        """
        data_dir = self.settings.data_dir
        written = read_mcp_file(self.mcp.path).servers
        return {each.name: needs_of(each.name, each.raw, self.variables, data_dir) for each in written}

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
