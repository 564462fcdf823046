"""Read langgraph.json and the settings: from options, then the environment, then langgraph.json's env."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from toolweave.config.langgraph_json import GraphEntry, HttpEntry, LangGraphJson, load_langgraph_json, read_dotenv
from toolweave.config.settings import Settings, export_settings, load_settings
from toolweave.nodes.local_model import PORTS, find_local_model
from toolweave.nodes.model_endpoint import MODEL_ADVICE, OFFLINE, chosen_endpoint, model_variable

LANGGRAPH_JSON = Path("langgraph.json")
DOTENV = ".env"
# Used without a langgraph.json; the file of that name in our repository has the same content.
DEFAULT_LANGGRAPH_JSON = LangGraphJson(
    path=LANGGRAPH_JSON,
    graphs={
        name: GraphEntry(target=f"toolweave.graphs.served:{name}", description=description)
        for name, description in (
            ("agent_loop", "An agent with the tools of all configured MCP servers"),
            ("todo_agent", "Manages a todo list in plain language"),
            ("workflow", "Turns an instruction into one request to a registered HTTP API"),
            ("script_writer", "Writes the script of a narrated video from the URL of a page"),
        )
    },
    http=HttpEntry(app="toolweave.api.app:app"),
)

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="The langgraph.json.", show_default="./langgraph.json, else Toolweave's graphs"
    ),
]

DataDirOption = Annotated[
    Path | None, typer.Option("--data-dir", metavar="DIR", help="Folder of the databases.", show_default=".toolweave")
]

McpOption = Annotated[
    Path | None, typer.Option("--mcp", metavar="FILE", help="Use the MCP servers of this file, of any MCP client.")
]


@dataclass(frozen=True, slots=True)
class Configuration:
    """The langgraph.json to serve, and the settings."""

    langgraph_json: LangGraphJson
    settings: Settings

    @property
    def has_toolweave_routes(self) -> bool:
        """Return whether Toolweave's own routes, such as /health, are served beside the graphs."""
        return self.langgraph_json.http.app == DEFAULT_LANGGRAPH_JSON.http.app

    @property
    def has_toolweave_graphs(self) -> bool:
        """Return whether any graph is one of Toolweave's own, which use the model of the settings."""
        return any(entry.target.startswith("toolweave.") for entry in self.langgraph_json.graphs.values())


def read_configuration(config: Path | None = None, **options: Any) -> Configuration:
    """Read langgraph.json, set its variables where the environment has none, and read the settings.

    `options` are settings from the command line. They are published as environment variables, too: the application
    that langgraph.json names reads its own settings when it starts.

    Raises:
        ConfigError: a file or a setting is invalid; names it and the fix.
    """
    langgraph_json = find_langgraph_json(config)
    langgraph_json.apply_env()
    provided = {name: value for name, value in options.items() if value is not None}
    settings = load_settings(**provided)
    export_settings(settings, provided)
    return Configuration(langgraph_json, settings)


def with_model(configuration: Configuration, ports: Mapping[str, int] = PORTS) -> tuple[Configuration, str]:
    """Select a model for a developer's own machine (U-03); return the configuration, and a line about the model.

    If no endpoint is configured, it is a model that a program on this machine offers, else the offline model. The
    choice is published as environment variables, because graphs read the settings when they are imported.

    Raises:
        ConfigError: as `chosen_endpoint`.
    """
    settings = configuration.settings
    if endpoint := chosen_endpoint(settings):
        return configuration, f"{endpoint.model} ({model_variable(settings)} is set)"
    if settings.model is not None:
        return configuration, "offline, a demo model that follows rules (TOOLWEAVE_MODEL is set)"
    found = asyncio.run(find_local_model(ports))
    if found:
        chosen = {"model": found.model, "openai_base_url": found.base_url}
        line = f"{found.describe()} (no endpoint is configured)"
    else:
        chosen = {"model": OFFLINE}
        line = f"offline, a demo model that follows rules: no endpoint is configured or found. {MODEL_ADVICE}"
    settings = settings.model_copy(update=chosen)
    export_settings(settings, chosen)
    return replace(configuration, settings=settings), line


def find_langgraph_json(config: Path | None) -> LangGraphJson:
    """Load `config`, else ./langgraph.json; without either, return our own graphs with the variables of ./.env.

    Raises:
        ConfigError: a file cannot be read or is invalid.
    """
    if config is None and not LANGGRAPH_JSON.exists():
        return DEFAULT_LANGGRAPH_JSON.model_copy(update={"env": read_dotenv(Path(DOTENV))})
    return load_langgraph_json(config or LANGGRAPH_JSON)
