"""Read what the commands below `toolweave servers` work on: the settings a server would have here, and mcp.jsonc."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from toolweave.cli.configuration import read_configuration
from toolweave.config.logs import configure_logging
from toolweave.config.mcp import McpConfig, McpServerConfig, served_mcp_config
from toolweave.config.settings import load_settings
from toolweave.errors import ConfigError
from toolweave.servers.connections.oauth.place import TokenPlace, token_place

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The mcp file. [default: TOOLWEAVE_MCP_CONFIG, else mcp.jsonc in the data folder, else ours]",
    ),
]
DataFolder = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="FOLDER", help="The data folder, as given to `serve`. [default: .toolweave]"),
]


@dataclass(frozen=True, slots=True)
class ServersConfig:
    """The configured servers, and where their tokens are kept."""

    mcp: McpConfig
    place: TokenPlace

    def find(self, name: str) -> McpServerConfig:
        """Find a server that a person signs in to.

        Raises:
            ConfigError: there is none of that name, or it is not one to sign in to.
        """
        server = next((each for each in self.mcp.servers if each.name == name), None)
        source = str(self.mcp.path)
        if server is None:
            known = ", ".join(each.name for each in self.mcp.servers) or "none"
            raise ConfigError(f"there is no server {name!r}.", source=source, fix=f"Known: {known}.")
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
    given = read_configuration(data_dir=data_dir).settings
    settings = load_settings(mcp_config=config, data_dir=given.data_dir, log_level="WARNING")
    configure_logging(settings)
    return ServersConfig(served_mcp_config(settings), token_place(settings))
